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

// watchedLimits are the limits that no cgroup enforces; zero means no limit.
type watchedLimits struct{ memory, pids int64 }

// lookEvery is the watchdog's interval.
const lookEvery = 100 * time.Millisecond

// watchdog polls the memory of a cage without cgroups and kills the largest command above the limit. The kernel
// enforces the process limit; the watchdog kills the command with most threads when it is reached. Its goroutine ends
// at stop.
type watchdog struct {
	box    *Box
	limits watchedLimits
	quit   chan struct{}
	done   chan struct{}

	mu       sync.Mutex // guards the fields below
	commands map[uint64]*watched
}

func newWatchdog(b *Box, limits watchedLimits) *watchdog {
	return &watchdog{box: b, limits: limits, quit: make(chan struct{}), commands: map[uint64]*watched{}}
}

func (w *watchdog) start() {
	w.done = make(chan struct{})
	go w.run()
}

// stop ends the watchdog and waits for its goroutine.
func (w *watchdog) stop() {
	if w.done == nil {
		return // never started
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

// add returns the place of a command, nil if no limit is watched.
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

// used is the usage of all processes with one mark.
type used struct {
	pids            []int
	memory, threads int64
}

// look adds up the usage of the cage and kills the largest command if a limit is exceeded.
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
		u.threads += max(1, stat.Threads) // a zombie counts as one thread
		memory += stat.Resident
		threads += max(1, stat.Threads)
	}
	if most := w.limits.memory; most > 0 && memory > most {
		// Resident memory counts shared pages once per process; the proportional share decides.
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

// proportional returns the memory of a process with its share of shared pages (Pss), or its resident memory if that
// cannot be read.
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

// kill kills the processes of the largest mark. Only a mark of a running command gets the reason.
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

// killMarked kills those processes that still carry the mark.
func killMarked(pids []int, mark uint64) {
	for _, pid := range pids {
		proc.Signal(pid, unix.SIGKILL, func(pid int) bool { return proc.MarkOf(pid) == mark })
	}
}

// watched is a command of a cage with watched limits.
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

// Usage implements link.Place; it has no better figures than the link.
func (c *watched) Usage() (core.Usage, bool) { return core.Usage{}, false }

// Release implements link.Place.
func (c *watched) Release() contract.Reason {
	c.dog.mu.Lock()
	defer c.dog.mu.Unlock()
	delete(c.dog.commands, c.mark)
	return c.hit
}
