package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// eventMask has no IN_ATTRIB, because modes do not matter. IN_CLOSE_WRITE covers writes through a mapping.
	eventMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_MOVED_FROM |
		unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	// eventSize is the size of an event without its name. The name has at most 256 bytes with its final zero.
	eventSize = unix.SizeofInotifyEvent
	readSize  = 64 << 10
)

// inotify is a [watcher].
type inotify struct {
	root string
	file *os.File // for wait, which uses the runtime's poller
	raw  syscall.RawConn
	buf  []byte

	folders map[int32]string // by watch descriptor
	watches map[string]int32
}

func newWatcher(root string) (watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &inotify{
		root: root, file: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, readSize),
		folders: map[int32]string{}, watches: map[string]int32{},
	}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// use calls do with the descriptor. It fails after close.
func (w *inotify) use(do func(fd int) error) error {
	var failed error
	err := w.raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

func (w *inotify) add(folder string) error {
	mask := uint32(eventMask)
	if folder != w.root {
		mask |= unix.IN_DONT_FOLLOW
	}
	return w.use(func(fd int) error {
		n, err := unix.InotifyAddWatch(fd, folder, mask)
		switch {
		// A file or a link has replaced the folder; its event is not yet read.
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			return fs.ErrNotExist
		case err != nil:
			return err
		}
		wd := int32(n)
		if was, ok := w.folders[wd]; ok { // the folder was moved here; the event of the move is not yet read
			delete(w.watches, was)
		}
		w.folders[wd], w.watches[folder] = folder, wd
		return nil
	})
}

func (w *inotify) remove(folder string) {
	wd, ok := w.watches[folder]
	if !ok {
		return
	}
	delete(w.watches, folder)
	delete(w.folders, wd)
	_ = w.use(func(fd int) error { // it fails for a removed folder, because its watch has already ended
		_, err := unix.InotifyRmWatch(fd, uint32(wd))
		return err
	})
}

func (w *inotify) read(handle func(path string)) (complete bool) {
	var pending int
	err := w.use(func(fd int) (err error) {
		pending, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	if err != nil {
		return false
	}
	complete = true
	// events after the call are left for the next one: a program that writes all the time would otherwise block the reader
	// forever
	for pending > 0 {
		var n int
		err := w.use(func(fd int) (err error) {
			for {
				if n, err = unix.Read(fd, w.buf); !errors.Is(err, unix.EINTR) {
					return err
				}
			}
		})
		if errors.Is(err, unix.EAGAIN) {
			return complete
		}
		if err != nil || n <= 0 {
			return false
		}
		pending -= n
		complete = w.events(w.buf[:n], handle) && complete
	}
	return complete
}

// events handles events in the kernel's format.
func (w *inotify) events(data []byte, handle func(path string)) (complete bool) {
	complete = true
	for len(data) >= eventSize {
		wd, mask := int32(binary.NativeEndian.Uint32(data)), binary.NativeEndian.Uint32(data[4:])
		end := eventSize + int(binary.NativeEndian.Uint32(data[12:]))
		name, _, _ := bytes.Cut(data[eventSize:end], []byte{0})
		data = data[end:]
		folder, ok := w.folders[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			complete = false
		case !ok: // the event of an ended watch
		case mask&unix.IN_IGNORED != 0:
			delete(w.folders, wd)
			delete(w.watches, folder)
		default:
			handle(filepath.Join(folder, string(name)))
		}
	}
	return complete
}

func (w *inotify) wait() bool {
	err := w.raw.Read(func(fd uintptr) bool {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		return err != nil || n > 0
	})
	return err == nil
}

func (w *inotify) close() { _ = w.file.Close() }
