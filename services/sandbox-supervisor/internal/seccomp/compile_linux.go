package seccomp

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in a filter's input (struct seccomp_data).
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // on every supported architecture the lower half of each argument comes first
)

// Results of a filter.
const (
	allow    = unix.SECCOMP_RET_ALLOW
	kill     = unix.SECCOMP_RET_KILL_PROCESS
	refuse   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	farthest = 255 // maximum offset of a conditional jump
)

type code []unix.SockFilter

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

func jump(test uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: value, Jt: yes, Jf: no}
}

// Filter returns the filter of a profile in the kernel's format: an array of struct sock_filter.
func Filter(p Profile) []byte {
	program := compile(p)
	raw := make([]byte, 0, 8*len(program))
	for _, in := range program {
		raw = binary.NativeEndian.AppendUint16(raw, in.Code)
		raw = append(raw, in.Jt, in.Jf)
		raw = binary.NativeEndian.AppendUint32(raw, in.K)
	}
	return raw
}

// compile returns the program of a profile.
func compile(p Profile) code {
	list := rules(p)
	last := 0
	for nr := range list {
		last = max(last, nr)
	}
	// The code for each number, and the ranges of numbers with the same code.
	var ranges []numbers
	for nr := 0; nr <= last; nr++ {
		body := code{answer(refuse)}
		if allowed, known := list[nr]; known {
			body = argumentCode(allowed)
		} else if slices.Contains(absent(p), nr) {
			body = code{answer(unknown)}
		}
		if n := len(ranges); n == 0 || !slices.Equal(ranges[n-1].body, body) {
			ranges = append(ranges, numbers{first: uint32(nr), body: body})
		}
	}
	ranges = append(ranges, numbers{first: uint32(last + 1), body: code{answer(unknown)}})
	program := code{
		load(offArch), jump(unix.BPF_JEQ, arch, 1, 0), answer(kill),
		load(offNumber), jump(unix.BPF_JSET, foreign, 0, 1), answer(unknown),
	}
	return append(program, search(ranges)...)
}

// numbers is a range of calls, from first to the beginning of the next range.
type numbers struct {
	first uint32
	body  code
}

// search returns code that finds the range of the loaded number.
func search(ranges []numbers) code {
	if len(ranges) == 1 {
		return ranges[0].body
	}
	middle := len(ranges) / 2
	below, above := search(ranges[:middle]), search(ranges[middle:])
	var c code
	if len(below) <= farthest {
		c = code{jump(unix.BPF_JGE, ranges[middle].first, uint8(len(below)), 0)}
	} else {
		c = code{
			jump(unix.BPF_JGE, ranges[middle].first, 0, 1),
			{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(below))},
		}
	}
	return append(append(c, below...), above...)
}

// argumentCode returns code that decides by the arguments.
func argumentCode(allowed []alternative) code {
	var c code
	for _, a := range allowed {
		c = append(c, alternativeCode(a)...)
		if len(a) == 0 {
			return c // unconditional, so further alternatives do not matter
		}
	}
	return append(c, answer(refuse))
}

// alternativeCode returns code that allows the call if every check holds, and otherwise continues after itself.
func alternativeCode(a alternative) code {
	c := code{answer(allow)}
	for _, check := range slices.Backward(a) {
		// The exit is after the code made so far.
		out := uint8(len(c))
		test := jump(unix.BPF_JEQ, check.value, 0, out)
		if check.not {
			test = jump(unix.BPF_JEQ, check.value, out, 0)
		}
		c = append(
			code{load(offArgs + 8*uint32(check.arg)), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: check.mask}, test},
			c...)
	}
	return c
}
