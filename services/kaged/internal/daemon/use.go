package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// usePoll is the interval between tries to get a lock that another process has.
const usePoll = 20 * time.Millisecond

// Share registers a command as a user of the daemon on dataDir until release or the end of the process. If another
// command has started the daemon for itself, it must outlive all its users. While a command stops its daemon, Share
// waits, so that no user loses the daemon during its work. It fails when ctx ends.
func Share(ctx context.Context, dataDir string) (release func(), err error) {
	return lockUse(ctx, dataDir, syscall.LOCK_SH, nil)
}

// Alone is for the command that stops a daemon that it started. It returns when the daemon has no other user, and
// admits no user until release. It calls waiting, once, if it has to wait, and fails when ctx ends.
func Alone(ctx context.Context, dataDir string, waiting func()) (release func(), err error) {
	return lockUse(ctx, dataDir, syscall.LOCK_EX, waiting)
}

func lockUse(ctx context.Context, dataDir string, how int, waiting func()) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(runDir(dataDir), "commands.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // without the folder there is no daemon
	}
	if err != nil {
		return nil, fault.Wrap(
			err,
			fault.Unavailable,
			"The data directory %s cannot be written; choose another with --data-dir.",
			dataDir,
		)
	}
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be locked.", dataDir)
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		if !retry.Wait(ctx, usePoll) {
			file.Close()
			return nil, ctx.Err()
		}
	}
}
