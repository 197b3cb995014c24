package cage

import (
	"fmt"
	"io"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// maxRefused is the maximum number of kinds of refused connections that are reported one by one.
const maxRefused = 50

// refusedList reports the connections that a cage refused: each kind once when it happens, and at the end the number of
// repetitions. One goroutine at a time may use it.
type refusedList struct {
	w io.Writer
	// later delays all reports until the end, because the command has the terminal.
	later bool
	// midline is true if the last output to w did not end a line.
	midline bool

	list []*commonv1.NetworkAttempt
	told []int64 // the reported number for each entry of list
	more int64
}

func (r *refusedList) add(a *commonv1.NetworkAttempt) {
	for _, known := range r.list {
		if known.GetTarget() == a.GetTarget() && known.GetRule() == a.GetRule() {
			known.Count += a.GetCount()
			return
		}
	}
	if len(r.list) == maxRefused {
		r.more += a.GetCount()
		return
	}
	r.list = append(r.list, a)
	if r.later {
		r.told = append(r.told, 0)
		return
	}
	r.told = append(r.told, a.GetCount())
	r.line(kit.RefusedLine(a.GetTarget(), a.GetRule(), a.GetCount()))
}

// end reports the refusals that are not reported yet.
func (r *refusedList) end() {
	for i, a := range r.list {
		if r.told[i] != a.GetCount() {
			r.line(kit.RefusedLine(a.GetTarget(), a.GetRule(), a.GetCount()))
		}
	}
	if r.more > 0 {
		r.line(kit.Count(int(r.more), "refused connection", "refused connections") + " more to other targets")
	}
}

// line writes a text on its own line.
func (r *refusedList) line(text string) {
	if r.midline {
		fmt.Fprintln(r.w)
	}
	r.midline = false
	fmt.Fprintln(r.w, "kaged:", text)
}
