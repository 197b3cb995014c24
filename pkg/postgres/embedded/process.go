package embedded

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// immediateLimit is the time from an immediate stop until the server is killed.
const immediateLimit = 5 * time.Second

// childPatience is the time in which the children of an ended server must end.
const childPatience = time.Second

// process is the server's main process.
type process struct {
	cmd  *exec.Cmd
	log  *logFile
	done chan struct{} // closed when the process has ended and err is set
	err  error
}

// durability are the settings for surviving crashes.
func (c cluster) durability() []string {
	if c.noSync {
		// Without autovacuum a test can drop its database at any moment: the owner may not end an autovacuum worker's
		// session.
		return []string{
			"fsync=off", "synchronous_commit=on", "full_page_writes=off", "autovacuum=off",
			"min_wal_size=32MB", "max_wal_size=64MB",
		}
	}
	return []string{
		"fsync=on", "synchronous_commit=on", "full_page_writes=on", "autovacuum=on", "max_wal_size=256MB",
	}
}

// settings are the settings of a server for one machine and a few services: small, quick to start, and quiet.
func (c cluster) settings(socketDir string) []string {
	return append(
		c.durability(),
		"listen_addresses=",
		"unix_socket_directories="+socketDir,
		"unix_socket_permissions=0700",
		"port="+port,
		"password_encryption=scram-sha-256",
		"cluster_name=kaged",
		"max_connections=60",
		"shared_buffers=32MB",
		"jit=off",
		"wal_level=minimal",
		"max_wal_senders=0",
		"max_logical_replication_workers=0",
		"logging_collector=off",
		"log_destination=stderr",
		"log_checkpoints=off",
		"log_line_prefix=%m [%p] %q%u ",
		"log_min_error_statement=panic",
		"timezone=UTC",
		"log_timezone=UTC",
		"lc_messages=C",
	)
}

// launch starts the server.
func (c cluster) launch() (*process, error) {
	cmd := exec.Command(c.install.command("postgres"))
	c.locks.inherit(cmd)
	if err := c.install.account.own(c.paths.run); err != nil {
		return nil, failed(err, "The folder %s cannot be given to the user PostgreSQL runs as.", c.paths.run)
	}
	data, doneData, err := c.install.account.folder(cmd, c.paths.data)
	if err != nil {
		return nil, err
	}
	defer doneData()
	run, doneRun, err := c.install.account.folder(cmd, c.paths.run)
	if err != nil {
		return nil, err
	}
	defer doneRun()
	cmd.Args = append(cmd.Args, "-D", data)
	for _, s := range c.settings(run) {
		cmd.Args = append(cmd.Args, "-c", s)
	}
	cmd.Dir, cmd.Env = "/", environment()
	c.install.account.apply(cmd)
	bind(cmd)
	log, err := openLog(c.paths.log)
	if err != nil {
		return nil, failed(err, "The log %s cannot be written.", c.paths.log)
	}
	cmd.Stdout, cmd.Stderr = log, log
	// Children of a killed server may hold its log briefly.
	cmd.WaitDelay = time.Second
	return startProcess(cmd, log)
}

// startProcess starts cmd on a thread that lives as long as cmd, because the kernel sends the parent-death signal when
// the thread that started the child ends.
func startProcess(cmd *exec.Cmd, log *logFile) (*process, error) {
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start(cmd)
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			_ = log.Close()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		_ = log.Close()
		return nil, failed(err, "PostgreSQL cannot be started.")
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// waitReady returns when the server has written "ready" to its status file.
func (p *process) waitReady(ctx context.Context, places paths) error {
	const statusLine = 7
	for {
		lines := postmasterLines(places.data)
		if postmasterPID(places.data) == p.pid() && len(lines) > statusLine &&
			strings.TrimSpace(lines[statusLine]) == "ready" {
			return nil
		}
		select {
		case <-p.done:
			return failed(errors.New(p.log.tail()), "PostgreSQL did not start; %s has its reason.", places.log)
		case <-ctx.Done():
			return ended(ctx, "PostgreSQL did not start in time.")
		case <-time.After(poll):
		}
	}
}

// stop ends the process, cleanly until ctx ends.
func (p *process) stop(ctx context.Context) error {
	select {
	case <-p.done: // If it ended by itself with an error, Err reports that.
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(signalFast)
	select {
	case <-p.done:
		return p.failure()
	case <-ctx.Done():
		p.kill()
		return nil
	}
}

// failure is the reason why the ended process failed.
func (p *process) failure() error {
	if p.err == nil {
		return nil
	}
	return failed(
		errors.Join(p.err, errors.New(p.log.tail())),
		"PostgreSQL ended unexpectedly; it recovers at its next start, and %s has the reason.",
		p.log.path,
	)
}

// kill ends the process immediately and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(signalImmediate)
	select {
	case <-p.done:
	case <-time.After(immediateLimit):
		_ = p.cmd.Process.Signal(os.Kill)
		<-p.done
	}
}
