package paths

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/fault"
)

// Open opens a file or folder for reading and returns its info. It never waits: a pipe, a socket or
// a device is file_not_regular. It fails with file_not_found if p is missing, with file_io if the
// system refuses.
func (p Path) Open() (*os.File, fs.FileInfo, error) {
	if p.Exists && !p.Mode.IsRegular() && !p.Mode.IsDir() && p.Mode != 0 {
		return nil, nil, p.NotRegular()
	}
	fd, err := p.openFD(unix.O_RDONLY | unix.O_NONBLOCK)
	if err != nil {
		return nil, nil, p.Failure("opened", err)
	}
	// By its real name, because reading a folder may have to look entries up by it.
	f := os.NewFile(uintptr(fd), p.Abs())
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = p.NotRegular()
	}
	if err != nil {
		f.Close()
		return nil, nil, p.Failure("opened", err)
	}
	return f, info, nil
}

// OpenFile opens a regular file for reading, as [Path.Open] does; a folder is file_not_regular.
func (p Path) OpenFile() (*os.File, fs.FileInfo, error) {
	f, info, err := p.Open()
	if err == nil && info.IsDir() {
		f.Close()
		return nil, nil, p.NotRegular()
	}
	return f, info, err
}

// OpenFD opens the path itself for reading and follows no link. The caller closes the descriptor. Errors are the
// system's.
func (p Path) OpenFD() (int, error) { return p.openFD(unix.O_RDONLY | unix.O_NONBLOCK) }

func (p Path) openFD(flags int) (int, error) {
	return beneath.Open(p.root.fd, p.Rel, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// NotRegular is the refusal to use p as a file.
func (p Path) NotRegular() error {
	what := "not a regular file"
	switch mode := p.Mode; {
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fault.New(fault.FileNotRegular, "%s is %s; a regular file is needed.", p.Show, what).With("path", p.Show)
}

// Failure turns the system's error of an operation on p into an error a model can act on; done
// names the operation, such as "written". Errors that already are one, those of a context, and nil
// stay unchanged.
func (p Path) Failure(done string, err error) error {
	var known *fault.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &known):
		return known
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR) && !p.Exists:
		return fault.Wrap(err, fault.FileNotFound, "There is no file at %s.", p.Show).With("path", p.Show)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		return p.NotRegular()
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return fault.Wrap(err, fault.FileIO, "%s changed into something else while it was being %s.", p.Show, done).
			With("path", p.Show)
	}
	return fault.Wrap(err, fault.FileIO, "%s could not be %s: %s.", p.Show, done, Reason(err)).With("path", p.Show)
}
