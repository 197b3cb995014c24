package core

import (
	"context"
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Detached is a command that no stream holds. Its methods are safe for concurrent use.
type Detached struct {
	id      string
	command Command
	tail    *tail
	started chan struct{} // closed when exec or err is set
	exec    *Exec
	err     error // the reason why it was not started

	// Set before done is closed, when the command and its descendants have ended and all its output is in tail.
	done  chan struct{}
	exit  contract.Exit
	ended time.Time
}

// Detach starts a command with the given id, a ULID chosen by the caller, or returns the existing command with that id.
// It lives until it ends by itself, at its time limit, by [Detached.End], at the end of its owner, or with the
// supervisor. If ctx ends before it has started, it is ended. Detach fails as [Supervisor.Start] does, with
// rate_limited also if the owner has too many, and with conflict if id is another owner's.
func (s *Supervisor) Detach(ctx context.Context, id string, c Command) (*Detached, error) {
	if !ident.Valid(id) {
		return nil, invalid("process_id", "The process id %.80q is not a ULID.", id)
	}
	d, isNew, err := s.reserve(id, c)
	if err != nil {
		return nil, err
	}
	if isNew {
		s.launch(ctx, d)
		if d.err == nil && ctx.Err() != nil {
			d.exec.stop(contract.ReasonCancelled) // the caller left before it got the answer that the command runs
		}
	}
	select {
	case <-d.started:
		return d, d.err
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
}

// reserve returns the command with this id; isNew means that the caller must start it.
func (s *Supervisor) reserve(id string, c Command) (_ *Detached, isNew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if d := s.detached[id]; d != nil {
		if !sameOwner(d.command.Owner, c.Owner) {
			return nil, false, fault.New(fault.Conflict, "The process id %s is another owner's.", id).With("process_id", id)
		}
		return d, false, nil
	}
	if s.closed {
		return nil, false, stopping()
	}
	running := 0
	for _, d := range s.detached {
		if account(d.command.Owner) == account(c.Owner) && d.ended.IsZero() {
			running++
		}
	}
	if running >= s.limits.MaxDetached {
		return nil, false, fault.New(
			fault.RateLimited,
			"%d background processes of this session run already, which is as many as may run at once; end one of them first.",
			running,
		).
			With("retry_after_ms", 1000)
	}
	d := &Detached{
		id:      id,
		command: c,
		tail:    newTail(s.limits.KeptOutput),
		started: make(chan struct{}),
		done:    make(chan struct{}),
	}
	s.detached[id] = d
	s.wg.Add(1) // until it is retired
	return d, true, nil
}

// launch starts a reserved command. A goroutine, which ends with the command, reads its output.
func (s *Supervisor) launch(ctx context.Context, d *Detached) {
	d.exec = &Exec{id: d.id, command: d.command, detached: true}
	if d.err = s.start(ctx, context.Background(), d.exec); d.err != nil {
		s.mu.Lock()
		delete(s.detached, d.id)
		s.mu.Unlock()
		close(d.started)
		s.wg.Done()
		return
	}
	close(d.started)
	go func() {
		defer s.wg.Done()
		d.exec.Copy(func(_ Stream, data []byte) error {
			d.tail.write(data)
			return nil
		})
		exit := d.exec.Wait()
		d.exec.Close()
		s.retire(d, exit)
	}()
}

// retire records the end of a command.
func (s *Supervisor) retire(d *Detached, exit contract.Exit) {
	s.mu.Lock()
	d.exit, d.ended = exit, time.Now()
	s.ended = append(s.ended, d)
	s.expire()
	s.mu.Unlock()
	close(d.done)
	d.tail.close()
}

// expire drops ended commands, the oldest first: those past the age limit, the owner's limit, or the total
// limit. The caller holds s.mu.
func (s *Supervisor) expire() {
	total := 0
	count := map[string]int{}
	for i := len(s.ended) - 1; i >= 0; i-- { // the youngest first, which are kept
		d := s.ended[i]
		start, end := d.tail.bounds()
		total += int(end-start) + endedCost
		owner := account(d.command.Owner)
		if count[owner]++; count[owner] > s.limits.EndedPerOwner || total > s.limits.EndedBytes ||
			time.Since(d.ended) >= s.limits.EndedFor {
			delete(s.detached, d.id)
		}
	}
	s.ended = slices.DeleteFunc(s.ended, func(d *Detached) bool { return s.detached[d.id] != d })
}

// endedCost is the memory charged for an ended command beside its output, in bytes.
const endedCost = 1 << 10

// Detached returns the detached command with this id. It fails with process_not_found.
func (s *Supervisor) Detached(id string) (*Detached, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	d := s.detached[id]
	if d == nil {
		return nil, UnknownProcess(id)
	}
	select {
	case <-d.started:
		if d.err == nil {
			return d, nil
		}
	default: // still starting: its starter gets the failure
	}
	return nil, fault.New(fault.ProcessNotFound, "The process %s has not started.", id).With("process_id", id)
}

// Signal sends a signal to the process group of a command of a session, or of any session if it is empty. It fails with
// process_not_found, process_ended and invalid_params.
func (s *Supervisor) Signal(id, session, name string) error {
	d, err := s.Detached(id)
	switch {
	case err == nil && (session == "" || d.command.Owner.SessionID == session):
		return d.Signal(name)
	case err == nil:
		return UnknownProcess(id)
	}
	for _, e := range s.find(func(e *Exec) bool {
		return e.id == id && (session == "" || e.command.Owner.SessionID == session)
	}) {
		if !s.startOf(e).IsZero() {
			return e.Signal(name)
		}
	}
	return err
}

// UnknownProcess is the error for a process that does not exist for the caller.
func UnknownProcess(id string) error {
	return fault.New(fault.ProcessNotFound, "No process %.80q is known here.", id).With("process_id", id)
}

// Follow passes on the retained output from byte number from; with wait it continues until the command or ctx ends. It
// returns an error of sink.
func (d *Detached) Follow(ctx context.Context, from int64, wait bool, sink func(at int64, data []byte) error) error {
	return d.tail.follow(ctx, from, wait, sink)
}

// Offer queues data for standard input, completely or not at all. It fails with rate_limited while the queue is full,
// with invalid_params for data above the queue's size or after the input was closed, and with process_ended.
func (d *Detached) Offer(data []byte) error {
	if err := d.alive(); err != nil {
		return err
	}
	if len(data) == 0 {
		return nil
	}
	if len(data) > d.exec.limits.InputBytes {
		return invalid("stdin", "The input is %d bytes; at most %d are taken at once.", len(data), d.exec.limits.InputBytes)
	}
	switch d.exec.input.offer(data) {
	case inputClosed:
		return invalid("stdin", "The standard input of the process was closed.")
	case inputFull:
		return fault.New(fault.RateLimited, "The process has not read the input it was given before; it may never do so.").
			With("retry_after_ms", 1000)
	}
	return nil
}

// CloseInput ends standard input after the queued data.
func (d *Detached) CloseInput() error {
	if err := d.alive(); err != nil {
		return err
	}
	d.exec.CloseInput()
	return nil
}

// Resize is [Exec.Resize] for a running command.
func (d *Detached) Resize(size Size) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.exec.Resize(size)
}

// Hidden is [Exec.Hidden].
func (d *Detached) Hidden() bool { return d.exec.Hidden() }

// Signal is [Exec.Signal] for a running command.
func (d *Detached) Signal(name string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.exec.Signal(name)
}

// alive fails with process_ended for an ended command.
func (d *Detached) alive() error {
	select {
	case <-d.done:
		return fault.New(fault.ProcessEnded, "The process has ended.").With("process_id", d.id)
	default:
		return nil
	}
}

// End ends the command with its descendants, and returns when they have ended or ctx ends.
func (d *Detached) End(ctx context.Context) error {
	d.exec.stop(contract.ReasonCancelled)
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

// Info returns the command's description, without its usage.
func (d *Detached) Info() contract.Process {
	info := contract.Process{RunningProcess: contract.RunningProcess{
		ID: d.id, Owner: d.command.Owner, PID: int64(d.exec.PID()), Command: line(d.command.Argv), CageID: d.exec.cageID(),
		StartedAt: d.exec.StartedAt().UnixMilli(), Background: true, Terminal: d.command.Terminal != nil,
	}}
	select {
	case <-d.done:
		exit := d.exit
		info.Exit = &exit
	default:
	}
	info.OutputStart, info.OutputEnd = d.tail.bounds()
	return info
}
