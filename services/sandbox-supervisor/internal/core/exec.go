package core

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
)

// Exec is a started command. Its methods may be called from any goroutine, [Exec.Copy] once.
type Exec struct {
	id      string
	command Command
	limits  Limits

	detached bool
	cage     *Cage // its cage, nil if uncaged
	own      *Hold // hold on a cage made for this command only
	refused  *feed // attempts refused by its cage; nil for a detached command, which has no watcher

	process Process // set before the Exec is returned
	started time.Time
	input   *input
	end     chan ending   // capacity 1: the first reason to end it from outside
	gone    chan struct{} // closed when exit is set
	exit    contract.Exit
	found   []contract.Finding // findings of its own cage
}

// ending is an end from outside: the reason, the time from SIGTERM to SIGKILL, and whether the cage sends the SIGTERM.
type ending struct {
	reason contract.Reason
	grace  time.Duration
	told   bool
}

// ID is the supervisor's id of the command.
func (e *Exec) ID() string { return e.id }

// PID is its process id on the host.
func (e *Exec) PID() int { return e.process.PID() }

// StartedAt is its start time.
func (e *Exec) StartedAt() time.Time { return e.started }

// cageID returns the id of the command's cage, "" if uncaged.
func (e *Exec) cageID() string {
	if e.cage == nil {
		return ""
	}
	return e.cage.spec.ID
}

// Copy passes the command's output to sink, one call at a time, and returns when all its output was passed; the command
// may run on without output. While sink blocks, the command blocks. After a failure of sink, output is discarded, so
// that the end of the command is not delayed. [Exec.Wait] and [Exec.Close] must follow.
func (e *Exec) Copy(sink func(Stream, []byte) error) {
	failed := false
	e.process.Copy(func(s Stream, data []byte) {
		if !failed {
			failed = sink(s, data) != nil
		}
	})
}

// Close releases the command's files. It may wait for a slow device, so the server answers an attached command's caller
// first.
func (e *Exec) Close() { e.process.Close() }

// Refused passes the network attempts refused by the command's cage to sink from now on, one call at a time, until sink
// fails. It returns at once. Commands of one cage share its network, so an attempt may be another command's.
func (e *Exec) Refused(sink func(contract.Attempt) error) { e.refused.deliver(sink) }

// Wait returns the end of the command, when it and its descendants have ended and all refused attempts are delivered.
func (e *Exec) Wait() contract.Exit {
	<-e.gone
	if e.refused != nil {
		e.refused.settle()
	}
	return e.exit
}

// Found returns the findings at the end of the command's own cage. Call it after [Exec.Wait].
func (e *Exec) Found() []contract.Finding { return e.found }

// Write queues data for standard input. It blocks while the queue is full, and drops data after the input was closed
// or the command has ended.
func (e *Exec) Write(data []byte) { e.input.write(data) }

// CloseInput ends standard input after the queued data.
func (e *Exec) CloseInput() { e.input.close() }

// Share offers the standard input and output, and returns the ticket to take them with, "" if they cannot be shared.
// Call it at most once, and before [Exec.Copy]. The ends of the pipes then have no goroutine of the supervisor between
// them and the taker.
func (e *Exec) Share() (ticket string) { return e.process.Share() }

// Unshare ends an offer that was not taken: input and output pass through the supervisor again.
func (e *Exec) Unshare() { e.process.Unshare() }

// Resize changes the size of the terminal. It fails with invalid_params without a terminal or for an invalid size.
func (e *Exec) Resize(size Size) error {
	size, err := size.check()
	if err != nil {
		return err
	}
	if !e.process.Resize(size) {
		return invalid("resize", "The command has no terminal to resize.")
	}
	return nil
}

// Hidden reports whether the command's terminal reads a line without echo, as a password prompt does.
func (e *Exec) Hidden() bool { return e.process.Hidden() }

// Signal sends a signal to the command's process group. It fails with invalid_params for an unknown name; an
// ended command ignores it.
func (e *Exec) Signal(name string) error {
	sig, ok := signals[name]
	if !ok {
		return invalid("signal", "There is no signal called %q; a name is one such as SIGINT.", name)
	}
	e.process.Signal(sig)
	return nil
}

// stop ends the command for a reason; only the first call counts.
func (e *Exec) stop(reason contract.Reason) {
	e.stopAs(ending{reason: reason, grace: e.limits.CancelGrace})
}

func (e *Exec) stopAs(end ending) {
	select {
	case e.end <- end:
	default:
	}
}

// watch ends the command when there is a reason, and returns when it has ended.
func (e *Exec) watch(ctx context.Context) {
	var timeout <-chan time.Time
	if e.command.Timeout > 0 {
		timer := time.NewTimer(e.command.Timeout - time.Since(e.started))
		defer timer.Stop()
		timeout = timer.C
	}
	reason := contract.ReasonNone
	select {
	case <-e.process.Exited():
		select {
		case end := <-e.end:
			if end.told { // the cage has sent the SIGTERM, and the command ended by it
				reason = end.reason
			}
		default:
		}
	case <-ctx.Done():
		reason = contract.ReasonCancelled
		e.process.Terminate()
		e.await(e.limits.CancelGrace, nil, nil)
	case end := <-e.end:
		reason = end.reason
		if !end.told {
			e.process.Terminate()
		}
		e.await(end.grace, ctx.Done(), e.end)
	case <-timeout:
		reason = contract.ReasonTimeout
		e.process.Terminate()
		e.await(e.limits.KillGrace, ctx.Done(), e.end)
	}
	e.input.stop()
	end := e.process.End()
	switch {
	case end.Lost && e.cage != nil:
		reason = e.cage.lost(reason)
	case end.Lost:
		reason = contract.ReasonLost
	case end.Hit != contract.ReasonNone:
		reason = end.Hit
	}
	e.exit = contract.Exit{Code: end.Code, Signal: signalName(end.Signal), Reason: reason, Duration: time.Since(e.started)}
	if end.Signal != 0 {
		e.exit.Code = 128 + int(end.Signal)
	}
}

// await waits for the end of a command that was asked to end, and kills it after the grace. Once cancelled or ended
// fires too, the grace is at most that of a cancelled command.
func (e *Exec) await(grace time.Duration, cancelled <-chan struct{}, ended <-chan ending) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case <-e.process.Exited():
			return
		case <-cancelled:
			cancelled = nil
			timer.Reset(min(grace, e.limits.CancelGrace))
		case <-ended:
			timer.Reset(min(grace, e.limits.CancelGrace))
		case <-timer.C:
			e.process.Kill()
			<-e.process.Exited()
			return
		}
	}
}
