package core

import (
	"context"
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// controls are the names of the actions for operators.
var controls = map[Action]string{
	Pause: "pause", Continue: "continue", StepInto: "step_into", StepOver: "step_over", StepOut: "step_out",
	Evaluate: "evaluate",
}

// maxMoves is the maximum number of moves that no answer has returned.
const maxMoves = 16

// move records the author of a move; undo removes the record. s.mu is held for both.
func (s *session) move(d Do) (undo func()) {
	before := s.moved
	m := contract.DebugMove{Action: controls[d.Action], Operator: d.Operator, At: time.Now().UnixMilli()}
	s.moved = &m
	if d.Operator != "" && len(s.moves) < maxMoves {
		s.moves = append(s.moves, m)
	}
	return func() {
		s.moved = before
		s.moves = slices.DeleteFunc(s.moves, func(o contract.DebugMove) bool { return o == m && d.Operator != "" })
	}
}

// takeMoves returns the operators' moves of the program since the last call.
func (s *session) takeMoves() []contract.DebugMove {
	s.mu.Lock()
	defer s.mu.Unlock()
	moves := s.moves
	s.moves = nil
	return moves
}

// Look selects a view of the debug sessions of a kaged session.
type Look struct {
	// Session is the id of the kaged session. ID is the debug session's id, "" for the last active one, or else the last
	// one.
	Session, ID string
	// Frame is the frame with the variables to show, 0 for the top one. Output is the offset of the first byte of output.
	Frame  int
	Output int64
}

// The limits of a view.
const (
	shownFrames    = 50
	shownVariables = 200
)

// Seen is a view for people. Paths in the project are relative to its root.
type Seen struct {
	// All are the debug sessions of a kaged session. View is a view of one of them, nil if there is none.
	All  []contract.DebugSession
	View *contract.DebugView
	Root string
}

// View returns a view of the debug sessions of a kaged session. It fails with not_found for an unknown debug session.
func (p *Pool) View(ctx context.Context, look Look) (Seen, error) {
	all := p.Sessions(look.Session)
	s, err := p.seen(look.Session, look.ID)
	if err != nil || s == nil {
		return Seen{All: all}, err
	}
	return Seen{all, s.view(ctx, look), s.start.Root}, nil
}

// seen returns the debug session with the id, nil for a kaged session without debug sessions. It fails with not_found.
func (p *Pool) seen(session, id string) (*session, error) {
	list := p.pick(func(k key) bool { return k.session == session })
	for _, s := range slices.Backward(list) {
		if id == s.start.ID || id == "" && !s.over() {
			return s, nil
		}
	}
	if id != "" {
		return nil, fault.New(fault.NotFound, "There is no debug session %.80q.", id).With("debug_session_id", id)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list[len(list)-1], nil
}

// view returns a view of a session. A program that continues meanwhile counts as running.
func (s *session) view(ctx context.Context, look Look) *contract.DebugView {
	s.mu.Lock()
	status, stop, epoch, moved, code := s.status, s.stop, s.epoch, s.moved, s.exitCode
	s.mu.Unlock()
	v := &contract.DebugView{Session: s.info(), Moved: moved, Frame: look.Frame, Breakpoints: s.places()}
	v.State = contract.DebugState{
		ID: s.start.ID, Status: string(status), ExitCode: code, Output: s.output.since(look.Output, s.pool.opts.ShownBytes),
	}
	select {
	case <-s.begun:
	default:
		return v
	}
	switch status {
	case Stopped:
		v.State.Reason, v.State.Thread = stop.Reason, stop.ThreadId
		v.State.Text = s.cut(firstText(stop.Text, stop.Description))
		frames, total, err := s.frames(ctx, stop.ThreadId, 0, shownFrames)
		if err == nil && len(frames) > 0 {
			v.State.BreakpointID = s.hit(stop, &frames[0], epoch)
			at := frames[0]
			at.Path = s.relative(at.Path)
			v.State.Location = &at
		}
		v.Frames, v.TotalFrames = s.inProject(frames), total
		v.State.Threads, _ = s.threads(ctx)
		if a, err := s.variables(ctx, Do{Frame: look.Frame, Scope: "local", Count: shownVariables}); err == nil {
			v.Variables, v.TotalVariables = a.Variables, a.Total
		}
	case Running:
		v.State.Threads, _ = s.threads(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch && status == Stopped {
		v.Session.Status, v.State.Status = string(s.status), string(s.status)
		v.State.Location, v.Frames, v.Variables, v.TotalFrames, v.TotalVariables = nil, nil, nil, 0, 0
		v.State.Reason, v.State.Text, v.State.BreakpointID = "", "", 0
	}
	return v
}

// inProject returns frames with paths in the form for people.
func (s *session) inProject(frames []Frame) []Frame {
	out := slices.Clone(frames)
	for i := range out {
		out[i].Path = s.relative(out[i].Path)
	}
	return out
}

//convert:one shownBreakpoint Breakpoint contract.DebugBreakpoint

func (s *session) places() (list []contract.DebugBreakpoint) {
	for _, b := range s.listed() {
		shown := shownBreakpoint(b)
		shown.Path = s.relative(b.Path)
		list = append(list, shown)
	}
	return list
}

// Control moves a program for d.Operator, or evaluates an expression. It fails as [Pool.Do] does, with not_found for an
// unknown debug session, and with invalid_params for an action that is not open to operators.
func (p *Pool) Control(ctx context.Context, d Do) (Answer, error) {
	if controls[d.Action] == "" {
		return Answer{}, fault.New(fault.InvalidParams, "Operators are not offered this action.").With("field", "action")
	}
	s, err := p.seen(d.Owner.SessionID, d.SessionID)
	if err != nil {
		return Answer{}, err
	}
	if s == nil {
		return Answer{}, fault.New(fault.DapSessionEnded, "No agent of the session debugs a program.")
	}
	select {
	case <-s.begun:
	default:
		return Answer{}, s.busy()
	}
	d.Context = "watch"
	a, err := s.do(ctx, d)
	a.ID = s.start.ID
	if a.Location != nil {
		at := *a.Location
		at.Path = s.relative(at.Path)
		a.Location = &at
	}
	return a, err
}
