package box

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// watchedLimits are the limits that no cgroup holds; zero is none.
type watchedLimits struct{ memory, pids int64 }

// lookEvery is how often a watchdog looks.
const lookEvery = 100 * time.Millisecond

// watchdog looks at what a box without cgroups uses, and kills the largest of its commands when that is too much. The bound of
// processes is the kernel's; the watchdog only tells that it was reached. Its goroutine ends with the box.
type watchdog struct {
	box    *Box
	limits watchedLimits
	quit   chan struct{}
	done   chan struct{}

	mu       sync.Mutex // guards what follows
	commands map[uint64]*watched
}

func newWatchdog(b *Box, limits watchedLimits) *watchdog {
	return &watchdog{box: b, limits: limits, quit: make(chan struct{}), commands: map[uint64]*watched{}}
}

func (w *watchdog) start() {
	w.done = make(chan struct{})
	go w.run()
}

// stop returns when the watchdog looks no more.
func (w *watchdog) stop() {
	if w.done == nil {
		return // it was never started
	}
	close(w.quit)
	<-w.done
}

func (w *watchdog) run() {
	defer close(w.done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			if w.busy() {
				w.look()
			}
		}
	}
}

func (w *watchdog) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.commands) > 0
}

// add returns the place of a command, nil where nothing is watched.
func (w *watchdog) add(mark uint64) *watched {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &watched{dog: w, mark: mark}
	w.commands[mark] = c
	return c
}

// used is what the processes of one mark use.
type used struct {
	pids            []int
	memory, threads int64
}

// look adds up what is used, and kills the largest command if it is too much.
func (w *watchdog) look() {
	marks := map[uint64]*used{}
	var memory, threads int64
	for _, pid := range proc.Descendants(w.box.process.pid) {
		stat, err := proc.Read(pid)
		if err != nil {
			continue
		}
		mark := proc.MarkOf(pid)
		u := marks[mark]
		if u == nil {
			u = &used{}
			marks[mark] = u
		}
		u.pids = append(u.pids, pid)
		u.memory += stat.Resident
		u.threads += max(1, stat.Threads) // one that has ended counts until it was waited for
		memory += stat.Resident
		threads += max(1, stat.Threads)
	}
	if most := w.limits.memory; most > 0 && memory > most {
		// What is shared was counted for each that shares it: looked at closely it may be less.
		memory = 0
		for _, u := range marks {
			u.memory = 0
			for _, pid := range u.pids {
				u.memory += proportional(pid)
			}
			memory += u.memory
		}
		if memory > most {
			w.kill(marks, contract.ReasonOOM, func(u *used) int64 { return u.memory })
		}
	}
	if most := w.limits.pids; most > 0 && threads >= most {
		w.kill(marks, contract.ReasonPIDs, func(u *used) int64 { return u.threads })
	}
}

// proportional returns the memory of a process, of what is shared its share.
func proportional(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err == nil {
		if _, rest, found := bytes.Cut(data, []byte("\nPss:")); found {
			if fields := bytes.Fields(rest); len(fields) > 0 {
				if kb, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
					return kb << 10
				}
			}
		}
	}
	stat, err := proc.Read(pid)
	if err != nil {
		return 0
	}
	return stat.Resident
}

// kill kills the largest by some measure. One whose mark is no command's is killed too, but nobody is told.
func (w *watchdog) kill(marks map[uint64]*used, reason contract.Reason, size func(*used) int64) {
	var largest uint64
	var most *used
	for mark, u := range marks {
		if most == nil || size(u) > size(most) {
			largest, most = mark, u
		}
	}
	if most == nil {
		return
	}
	w.mu.Lock()
	if c := w.commands[largest]; c != nil && c.hit == contract.ReasonNone {
		c.hit = reason
	}
	w.mu.Unlock()
	killMarked(most.pids, largest)
}

// killMarked kills processes that still carry a mark.
func killMarked(pids []int, mark uint64) {
	for _, pid := range pids {
		proc.Signal(pid, unix.SIGKILL, func(pid int) bool { return proc.MarkOf(pid) == mark })
	}
}

// watched is a command in a box whose limits are watched.
type watched struct {
	dog  *watchdog
	mark uint64
	hit  contract.Reason // guarded by dog.mu
}

// Files implements link.Place, as do the methods below.
func (c *watched) Files() ([]int, bool) { return nil, false }

// Kill implements link.Place.
func (c *watched) Kill() error {
	var pids []int
	for _, pid := range proc.Descendants(c.dog.box.process.pid) {
		if proc.MarkOf(pid) == c.mark {
			pids = append(pids, pid)
		}
	}
	killMarked(pids, c.mark)
	return nil
}

// Usage implements link.Place: it is not known better here.
func (c *watched) Usage() (core.Usage, bool) { return core.Usage{}, false }

// Leave implements link.Place.
func (c *watched) Leave() contract.Reason {
	c.dog.mu.Lock()
	defer c.dog.mu.Unlock()
	delete(c.dog.commands, c.mark)
	return c.hit
}
