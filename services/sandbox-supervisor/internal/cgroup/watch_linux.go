package cgroup

import (
	"sync"

	"golang.org/x/sys/unix"
)

// watcher waits for the events of all cages, in one goroutine and one thread. An event calls the function registered
// for the file, which must return quickly; it may be called once more after forget.
type watcher struct {
	epoll, wake int
	done        chan struct{}

	mu    sync.Mutex // guards the fields below
	calls map[int32]func()
}

func newWatcher() (*watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, err
	}
	w := &watcher{epoll: epoll, wake: wake, done: make(chan struct{}), calls: map[int32]func(){}}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}); err != nil {
		unix.Close(wake)
		unix.Close(epoll)
		return nil, err
	}
	go w.run()
	return w, nil
}

// add calls f when a cgroup's file has changed since it was last read through this descriptor.
func (w *watcher) add(fd int, f func()) error { return w.register(fd, unix.EPOLLPRI, f) }

// addEventfd calls f when an eventfd has counted.
func (w *watcher) addEventfd(fd int, f func()) error { return w.register(fd, unix.EPOLLIN, f) }

func (w *watcher) register(fd int, events uint32, f func()) error {
	w.mu.Lock()
	w.calls[int32(fd)] = f
	w.mu.Unlock()
	err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events | unix.EPOLLET, Fd: int32(fd)})
	if err == unix.EPERM { // a file system without events: the file is read at the end
		return nil
	}
	if err != nil {
		w.forget(fd)
	}
	return err
}

// forget undoes add. Call it before the file is closed.
func (w *watcher) forget(fd int) {
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil) // fails if it was never added
	w.mu.Lock()
	delete(w.calls, int32(fd))
	w.mu.Unlock()
}

func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if int(e.Fd) == w.wake {
				return
			}
			w.mu.Lock()
			f := w.calls[e.Fd]
			w.mu.Unlock()
			if f != nil {
				f()
			}
		}
	}
}

// close returns after the last callback.
func (w *watcher) close() {
	_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd takes eight bytes
	<-w.done
	unix.Close(w.wake)
	unix.Close(w.epoll)
}
