package edit

import (
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
)

// Limits of the search for similar text, which is only a hint: the lines searched, the lines shown, and the length
// shown of each.
const (
	nearestLines = 20_000
	nearestShown = 8
	nearestBytes = 1000
	// similarEnough is the minimum share of common letter pairs for a line to be shown.
	similarEnough = 0.4
)

// Nearest returns the line, counted from 1, at which the text most similar to wanted begins (0 if no text is similar),
// the text there, and whether it differs in white space only. It searches only the beginning of a long text.
func Nearest(text, wanted string) (line int, shown string, exact bool) {
	lines := strings.SplitN(text, "\n", nearestLines+1)
	want := strings.Split(strings.Trim(wanted, "\r\n"), "\n")
	at, exact := nearest(lines, want)
	if at < 0 {
		return 0, "", false
	}
	shown = strings.Join(lines[at:min(len(lines), at+min(len(want), nearestShown))], "\n")
	return at + 1, clip.Marked(shown, nearestBytes, "..."), exact
}

// notFound is the refusal for text that does not occur, with the most similar position.
func notFound(text, old string) error {
	f := fault.New(fault.OldStringNotFound, "old_string does not occur in the file.")
	line, shown, exact := Nearest(text, old)
	if line == 0 {
		return f
	}
	f = fault.New(
		fault.OldStringNotFound,
		"old_string does not occur in the file; the nearest text begins at line %d.",
		line,
	)
	if exact {
		f = fault.New(
			fault.OldStringNotFound,
			"old_string does not occur in the file; the text at line %d differs only in white space.",
			line,
		)
	}
	return f.With("nearest_line", line).With("nearest_text", shown)
}

// nearest returns the index of the line where wanted fits best, -1 if no line is similar, and whether only white space
// differs.
func nearest(lines, wanted []string) (int, bool) {
	best, score := -1, 0
	keys := make([]string, len(lines))
	for i, line := range lines {
		keys[i] = squeeze(line)
	}
	want := make([]string, len(wanted))
	for i, line := range wanted {
		want[i] = squeeze(line)
	}
	for i := range keys {
		same := 0
		for j := 0; j < min(len(want), nearestShown) && i+j < len(keys); j++ {
			if want[j] != "" && keys[i+j] == want[j] {
				same += len(want[j])
			}
		}
		if same > score {
			best, score = i, same
		}
	}
	if best >= 0 {
		return best, fits(keys[best:], want)
	}
	return similar(keys, want), false
}

func fits(keys, want []string) bool {
	if len(keys) < len(want) {
		return false
	}
	for i := range want {
		if keys[i] != want[i] {
			return false
		}
	}
	return true
}

// squeeze returns a line without its white space.
func squeeze(line string) string { return strings.Join(strings.Fields(line), "") }

// similar returns the line at which wanted begins if its longest line is aligned with the line that shares most letter
// pairs with it.
func similar(keys, want []string) int {
	longest := 0
	for i := range want {
		if len(want[i]) > len(want[longest]) {
			longest = i
		}
	}
	pairs := pairsOf(want[longest])
	best, score := -1, similarEnough
	for i, key := range keys {
		if s := pairs.share(key); s > score {
			best, score = i, s
		}
	}
	return max(best-longest, min(best, 0))
}

// pairs counts the letter pairs of a line.
type pairs map[[2]byte]int

// pairBytes is the maximum number of compared bytes of a line.
const pairBytes = 400

func pairsOf(s string) pairs {
	p := pairs{}
	for i := 1; i < min(len(s), pairBytes); i++ {
		p[[2]byte{s[i-1], s[i]}]++
	}
	return p
}

// share returns the similarity of p and s, from 0 to 1 (the Dice coefficient).
func (p pairs) share(s string) float64 {
	other := pairsOf(s)
	common, all := 0, 0
	for pair, n := range p {
		common += min(n, other[pair])
		all += n
	}
	for _, n := range other {
		all += n
	}
	if all == 0 {
		return 0
	}
	return 2 * float64(common) / float64(all)
}
