package compact

import (
	"hash/maphash"
	"sync/atomic"
)

// rememberedFrom is the length, in bytes, from which a text's estimate is remembered. Below it, counting is as fast as
// the hash and the access to memory.
const rememberedFrom = 512

// remembered holds the estimates of long texts. The first request of a run estimates the whole conversation twice,
// for pruning and for the window; that was a third of its time after 2,000 messages.
var remembered = newEstimates()

// The parts of an entry: the low bits are the estimate, the others belong to the text's hash.
const (
	estimateBits = 24
	estimateMask = 1<<estimateBits - 1
	estimateRows = 1 << 15
)

// estimates is a table of estimates by the hash of the text. An entry is one word, so readers and writers need no lock;
// a text whose row is taken replaces the entry. Two texts are confused if 55 bits of their hashes are equal. It is safe
// for concurrent use.
type estimates struct {
	seed maphash.Seed
	rows [estimateRows]atomic.Uint64
}

func newEstimates() *estimates { return &estimates{seed: maphash.MakeSeed()} }

// tokens returns the estimate of a text.
func (e *estimates) tokens(text string) int64 {
	hash := maphash.String(e.seed, text)
	row := &e.rows[hash%estimateRows]
	mark := hash &^ estimateMask
	if entry := row.Load(); entry&^estimateMask == mark && entry != 0 {
		return int64(entry & estimateMask)
	}
	n := count(text)
	if n <= estimateMask {
		row.Store(mark | uint64(n))
	}
	return n
}
