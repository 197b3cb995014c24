package cage

import (
	"fmt"
	"io"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// maxRefused is how many kinds of refused connections are told one by one.
const maxRefused = 50

// refusedList tells of the connections that a cage refused, each kind once when it happens, and at the end how often
// where it was more than once. It is for one goroutine.
type refusedList struct {
	w io.Writer
	// later keeps all of it for the end, because the command has the terminal.
	later bool
	// midline says that the last that was written to w is no whole line.
	midline bool

	list []*commonv1.NetworkAttempt
	told []int64 // how often each of list was said to have happened
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

// end reports the refusals that were not reported yet.
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

// line writes a line of its own.
func (r *refusedList) line(text string) {
	if r.midline {
		fmt.Fprintln(r.w)
	}
	r.midline = false
	fmt.Fprintln(r.w, "kaged:", text)
}
