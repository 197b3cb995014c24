package debug

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
)

func stopped() seen {
	s := session{ID: "dap_1", AgentPath: "primary", Runtime: "go", Program: "sum", Status: "stopped"}
	return seen{Sessions: []session{s, s}, Debug: &view{
		Session: s, Moved: &move{Action: "step_over", OperatorID: "ada"},
		State: &state{
			Status: "stopped", Reason: "breakpoint", BreakpointID: 2,
			Output: &output{Text: "one\x1b[2J\ntwo\n", Next: 12},
		},
		Source: []sourceLine{{6, "sum := 0"}, {7, "\tsum += n\u202e"}},
		Frames: []frame{
			{Name: "m.Mean", Path: "mean.go", Line: 7}, {ID: 1, Name: "m.TestMean", Path: "mean_test.go", Line: 6},
		},
		TotalFrames: 5,
		Variables:   []variable{{Name: "sum", Value: "4\x07", Type: "int"}}, TotalVariables: 1,
		Breakpoints: []breakpoint{{ID: 2, Path: "mean.go", Line: 7, ActualLine: 7, Condition: "sum == 4", Verified: true}},
	}}
}

// A page shows position, stack, values, breakpoints and output. Control characters of the program are escaped.
func TestPage(t *testing.T) {
	t.Parallel()
	want := `go sum, primary: stopped (breakpoint 2), step_over by ada
1 more debug sessions; --debug-session picks one.
      6  sum := 0
>     7      sum += n\u202e
stack
>  0  m.Mean  mean.go:7
   1  m.TestMean  mean_test.go:6
      3 more
variables
  sum = int 4\a
breakpoints
  2  mean.go:7 if sum == 4
output
  one\x1b[2J
  two`
	s := stopped()
	if d := cmp.Diff(want, strings.Join(page(s, tail(s, ""), maxOutput), "\n")); d != "" {
		t.Error(d)
	}
	if got := page(seen{}, "", 8); len(got) != 1 || got[0] != "No agent of the session debugs a program." {
		t.Errorf("without a debug session: %q", got)
	}
}

// fake is a program that records its moves.
type fake struct {
	mu    sync.Mutex // guards the fields below
	moves []string
	away  bool
}

func (f *fake) look(_ context.Context, frame int, from int64) (seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return seen{}, fault.New(fault.Unavailable, "The workspace is away.")
	}
	s := stopped()
	s.Debug.FrameID = frame
	if from > 0 {
		s.Debug.State.Output = &output{From: from, Next: from}
	}
	return s, nil
}

func (f *fake) move(_ context.Context, action, expression string, _ int, _ time.Duration) (moved, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moves = append(f.moves, strings.TrimSpace(action+" "+expression))
	switch {
	case action == evaluate:
		return moved{Result: &variable{Value: "3", Type: "int"}}, nil
	case action == "pause":
		return moved{}, fault.New(fault.Conflict, "The program is stopped.\x1b[2J")
	}
	return moved{State: &state{Status: "stopped"}}, nil
}

// show presses keys on a screen and returns its last drawing.
func show(t *testing.T, f *fake, pressed string) string {
	t.Helper()
	var out strings.Builder
	s := &screen{at: f, out: &out, size: func() (int, int) { return 60, 40 }}
	if err := s.follow(t.Context(), strings.NewReader(pressed)); err != nil {
		t.Fatal(err)
	}
	drawn := strings.Split(out.String(), "\x1b[H\x1b[2J")
	return drawn[len(drawn)-1]
}

// Keys move the program, select a frame and evaluate. An error is shown below the page.
func TestKeys(t *testing.T) {
	t.Parallel()
	f := &fake{}
	last := show(t, f, "nsoc?u")
	if d := cmp.Diff([]string{"step_over", "step_into", "step_out", "continue"}, f.moves); d != "" {
		t.Error(d)
	}
	if !strings.Contains(last, ">  1  m.TestMean") || !strings.Contains(last, "  two") {
		t.Errorf("a frame up: %q", last)
	}
	if last = show(t, &fake{}, "elenx\x7f(a)\r"); !strings.Contains(last, "len(a) = int 3") {
		t.Errorf("evaluated: %q", last)
	}
	if last = show(t, &fake{}, "ex\x1b"); !strings.Contains(last, "n step over") {
		t.Errorf("given up: %q", last)
	}
	if last = show(t, &fake{}, "p"); !strings.Contains(last, `The program is stopped.\x1b[2J`) {
		t.Errorf("refused: %q", last)
	}
	f = &fake{}
	if show(t, f, "qn"); len(f.moves) != 0 {
		t.Errorf("after leaving: %v", f.moves)
	}
	if last = show(t, &fake{away: true}, "q"); !strings.Contains(last, "The workspace is away.") {
		t.Errorf("away: %q", last)
	}
}

// A screen ends with its context.
func TestScreenEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, end := io.Pipe()
	defer end.Close()
	s := &screen{at: &fake{}, out: io.Discard, size: func() (int, int) { return 80, 24 }}
	if err := s.follow(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
