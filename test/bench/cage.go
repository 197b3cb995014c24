package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// The numbers of created cages and of started commands.
const (
	cageRounds = 40
	execRounds = 200
	idleRounds = 6
	idleCages  = 20
	crowdCages = 100
	// createTarget is in milliseconds. execTarget and terminalTarget are the excess over an empty call and a fork and
	// exec.
	createTarget, execTarget, terminalTarget = 6, 0.3, 0.4
)

// measureCages measures the creation of cages, the start of commands in them, and their network, and compares them with
// fork and exec and with the installed container runtimes.
func measureCages(ctx context.Context, w *world) ([]Figure, error) {
	own, err := w.startSupervisor(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer own.stop()
	probed, err := own.ProbeCages(ctx, &sandboxsupervisorv1.ProbeCagesRequest{})
	if err != nil {
		return nil, err
	}
	if probed.GetTier() == "" {
		fmt.Fprintf(w.progress, "bench: cage: cannot be measured here: %s\n", probed.GetUnavailable())
		return nil, nil
	}
	var figures []Figure
	for _, measure := range []func(context.Context, *world) ([]Figure, error){
		own.measureCreate, own.measureExec, own.measureRuntimes, own.measureCrowd, own.measureIdleCages,
		own.measureThroughput,
	} {
		got, err := measure(ctx, w)
		if err != nil {
			return figures, err
		}
		figures = append(figures, got...)
	}
	if os.Getuid() != 0 {
		return figures, nil
	}
	other, err := w.startSupervisor(ctx, unprivileged)
	if err != nil {
		return figures, err
	}
	defer other.stop()
	took, err := other.creations(ctx, cageRounds, 0)
	if err != nil {
		return figures, err
	}
	return append(figures, Figure{
		Name: "cage/create-rootless", Value: ms(percentile(took, 50)), Spread: spread(took), Unit: "ms", Target: createTarget,
	}), nil
}

// creations creates cages one after the other and returns the time of each.
func (s *supervisor) creations(ctx context.Context, rounds int, pause time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	for range rounds {
		time.Sleep(pause)
		begun := time.Now()
		c, err := s.hold(ctx, s.policy())
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
		if err := c.release(ctx); err != nil {
			return nil, err
		}
	}
	return took, nil
}

func (s *supervisor) measureCreate(ctx context.Context, _ *world) ([]Figure, error) {
	if _, err := s.creations(ctx, 3, 0); err != nil { // work that is done only once
		return nil, err
	}
	busy, err := s.creations(ctx, cageRounds, 0)
	if err != nil {
		return nil, err
	}
	idle, err := s.creations(ctx, idleRounds, time.Second)
	if err != nil {
		return nil, err
	}
	return []Figure{
		{
			Name: "cage/create", Value: ms(percentile(busy, 50)), Spread: spread(busy), Unit: "ms", Target: createTarget,
			Note: "until commands can be started",
		},
		{
			Name: "cage/create-idle", Value: ms(percentile(idle, 50)), Spread: spread(idle), Unit: "ms", Target: createTarget,
			Note: "after a second of idle",
		},
	}, nil
}

// forkExec runs the same command without a supervisor.
func forkExec() (time.Duration, error) {
	begun := time.Now()
	err := exec.Command("/bin/true").Run()
	return time.Since(begun), err
}

func (s *supervisor) measureExec(ctx context.Context, _ *world) ([]Figure, error) {
	c, err := s.hold(ctx, s.policy())
	if err != nil {
		return nil, err
	}
	var calls []time.Duration
	run := func(command *sandboxsupervisorv1.ExecStart) func() (time.Duration, error) {
		return func() (time.Duration, error) { return s.exec(ctx, command) }
	}
	took, err := shuffled(execRounds,
		func() (time.Duration, error) {
			forked, err := forkExec()
			if err != nil {
				return 0, err
			}
			called, err := s.ping(ctx)
			calls = append(calls, called)
			return forked + called, err
		},
		run(c.command(false, "/bin/true")), run(c.command(true, "/bin/true")), run(s.command(nil, false, "/bin/true")),
		func() (time.Duration, error) { return s.refusedExec(ctx) },
	)
	if err != nil {
		return nil, err
	}
	const floor = "a fork and exec, and an empty call:"
	return []Figure{
		excess("cage/exec", floor, took[1], took[0], execTarget),
		excess("cage/exec-pty", floor, took[2], took[0], terminalTarget),
		excess("cage/exec-uncaged", floor, took[3], took[0], 0),
		excess("cage/exec-refused", "an empty call:", took[4], calls[1:], 0),
	}, c.release(ctx)
}

// refusedExec calls for a command that is refused before anything is done: the cost of the stream alone.
func (s *supervisor) refusedExec(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	_, err := s.exec(ctx, s.command(nil, false))
	took := time.Since(begun)
	if !errors.Is(err, fault.InvalidParams) {
		return 0, fmt.Errorf("a command without a program: %v", err)
	}
	return took, nil
}

// measureCrowd creates many cages at once, and runs a command in each.
func (s *supervisor) measureCrowd(ctx context.Context, _ *world) ([]Figure, error) {
	cages := make([]*held, crowdCages)
	each := func(work func(i int) error) error {
		var group sync.WaitGroup
		failed := make(chan error, crowdCages)
		for i := range crowdCages {
			group.Go(func() {
				if err := work(i); err != nil {
					failed <- err
				}
			})
		}
		group.Wait()
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
	begun := time.Now()
	if err := each(func(i int) (err error) { cages[i], err = s.hold(ctx, s.policy()); return err }); err != nil {
		return nil, err
	}
	created := time.Since(begun)
	begun = time.Now()
	if err := each(func(i int) error {
		_, err := s.exec(ctx, cages[i].command(false, "/bin/true"))
		return err
	}); err != nil {
		return nil, err
	}
	ran := time.Since(begun)
	if err := each(func(i int) error { return cages[i].release(ctx) }); err != nil {
		return nil, err
	}
	return []Figure{
		{Name: "cage/100", Value: ms(created), Unit: "ms", Target: crowdCages * createTarget, Note: "100 cages at once"},
		{Name: "cage/100-exec", Value: ms(ran), Unit: "ms", Note: "a command in each, at once"},
	}, nil
}

// measureIdleCages measures the memory of an empty cage.
func (s *supervisor) measureIdleCages(ctx context.Context, _ *world) ([]Figure, error) {
	before, err := s.descendants()
	if err != nil {
		return nil, err
	}
	var cages []*held
	for range idleCages {
		c, err := s.hold(ctx, s.policy())
		if err != nil {
			return nil, err
		}
		cages = append(cages, c)
	}
	after, err := s.descendants()
	if err != nil {
		return nil, err
	}
	for _, c := range cages {
		if err := c.release(ctx); err != nil {
			return nil, err
		}
	}
	return []Figure{
		{Name: "cage/rss", Value: float64(after-before) / idleCages / 1e6, Unit: "MB", Target: 6, Note: "of an idle cage"},
	}, nil
}

// measureThroughput reads a gigabyte over the network of a cage, and without a cage.
func (s *supervisor) measureThroughput(ctx context.Context, w *world) ([]Figure, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		block := make([]byte, 1<<20)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for range 1 << 10 {
				if _, err := c.Write(block); err != nil {
					break
				}
			}
			c.Close()
		}
	})
	bash, err := exec.LookPath("bash")
	if err != nil {
		fmt.Fprintln(w.progress, "bench: cage/net-throughput: needs bash")
		return nil, nil
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; cat <&3 >/dev/null", host, port)
	policy := s.policy()
	policy.NetAllow = []string{l.Addr().String()}
	c, err := s.hold(ctx, policy)
	if err != nil {
		return nil, err
	}
	best := func(start *sandboxsupervisorv1.ExecStart) (least time.Duration, err error) {
		for range 3 {
			took, err := s.exec(ctx, start)
			if err != nil {
				return 0, err
			}
			if least == 0 || took < least {
				least = took
			}
		}
		return least, nil
	}
	inside, err := best(c.command(false, bash, "-c", script))
	if err != nil {
		return nil, err
	}
	outside, err := best(s.command(nil, false, bash, "-c", script))
	if err != nil {
		return nil, err
	}
	return []Figure{{
		Name: "cage/net-throughput", Value: ms(inside), Unit: "ms/GiB", Floor: ms(outside), Target: 1074,
		Note: "1 GiB from a server on loopback",
	}}, c.release(ctx)
}

// measureRuntimes runs a command in a new cage, and the same with other runtimes: each time one process from start to
// end.
func (s *supervisor) measureRuntimes(ctx context.Context, w *world) ([]Figure, error) {
	type rival struct {
		peer
		run func() (time.Duration, error)
	}
	var rivals []rival
	for _, r := range runtimes {
		p := w.findPeer(ctx, r.title, r.title)
		if p.path == "" {
			rivals = append(rivals, rival{peer: p})
			continue
		}
		args, err := r.prepare(w.dir)
		if err != nil {
			return nil, err
		}
		run := func() (time.Duration, error) {
			cmd := exec.CommandContext(ctx, p.path, args...)
			begun := time.Now()
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %.200s", err, strings.TrimSpace(string(out)))
			}
			return time.Since(begun), err
		}
		if _, err := run(); err != nil {
			fmt.Fprintf(w.progress, "bench: cage/run/%s: it does not work here: %v\n", r.title, err)
			continue
		}
		rivals = append(rivals, rival{p, run})
	}
	var ours, forks []time.Duration
	theirs := make([][]time.Duration, len(rivals))
	for range cageRounds {
		took, err := s.exec(ctx, s.command(s.policy(), false, "/bin/true"))
		if err != nil {
			return nil, err
		}
		ours = append(ours, took)
		if took, err = forkExec(); err != nil {
			return nil, err
		}
		forks = append(forks, took)
		for i, r := range rivals {
			if r.run == nil {
				continue
			}
			if took, err = r.run(); err != nil {
				return nil, err
			}
			theirs[i] = append(theirs[i], took)
		}
	}
	value, floor := ms(percentile(ours, 50)), ms(percentile(forks, 50))
	var figures []Figure
	for i, r := range rivals {
		f := Figure{Name: "cage/run/" + strings.Fields(r.title)[0], Value: value, Unit: "ms", Floor: floor, Peer: r.missing()}
		if r.run != nil {
			f.Peer, f.Rival, f.Target = r.title, ms(percentile(theirs[i], 50)), 1
		}
		figures = append(figures, f)
	}
	if len(figures) == 0 {
		figures = []Figure{{Name: "cage/run", Value: value, Unit: "ms", Floor: floor}}
	}
	return figures, nil
}

// exec runs a command, which must exit with 0, and returns the time from the call to its end.
func (s *supervisor) exec(ctx context.Context, start *sandboxsupervisorv1.ExecStart) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begun := time.Now()
	stream, err := s.Exec(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&sandboxsupervisorv1.ExecRequest{
		Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start},
	}); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var said []byte
	for {
		event, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		said = append(said, event.GetOutput().GetData()...)
		if exited := event.GetExited(); exited != nil {
			if exited.GetExitCode() != 0 {
				return 0, fmt.Errorf("%v ended with %v: %.300s", start.GetArgv(), exited, said)
			}
			return time.Since(begun), nil
		}
	}
}

// policy returns a small cage with one writable folder.
func (s *supervisor) policy() *commonv1.CagePolicy {
	return &commonv1.CagePolicy{
		Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/work"}}, Seccomp: "default", State: "ephemeral",
	}
}
