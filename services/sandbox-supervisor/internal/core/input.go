package core

import "sync"

// input is the queue of a command's standard input.
type input struct {
	process Process
	max     int
	wg      *sync.WaitGroup // counts the feeder

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	data    []byte
	feeding bool // whether the feeder runs
	closed  bool // whether further data is refused; queued data is still delivered
	stopped bool // whether the command has ended
}

func newInput(p Process, limit int, wg *sync.WaitGroup) *input {
	in := &input{process: p, max: limit, wg: wg}
	in.changed.L = &in.mu
	return in
}

func (in *input) write(data []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(data) > 0 {
		for len(in.data) >= in.max && !in.stopped {
			in.changed.Wait()
		}
		if in.closed || in.stopped {
			return
		}
		n := min(len(data), in.max-len(in.data))
		in.data = append(in.data, data[:n]...)
		data = data[n:]
		in.feed()
	}
}

// Results of an offer.
type offered int

const (
	inputTaken offered = iota
	inputFull
	inputClosed
)

// offer never blocks: it queues all of data or no byte.
func (in *input) offer(data []byte) offered {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.closed || in.stopped:
		return inputClosed
	case len(in.data)+len(data) > in.max:
		return inputFull
	}
	in.data = append(in.data, data...)
	in.feed()
	return inputTaken
}

func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed && !in.stopped {
		in.closed = true
		in.feed()
	}
}

// stop ends the feeder and blocked writers.
func (in *input) stop() {
	in.mu.Lock()
	in.stopped = true
	in.changed.Broadcast()
	in.mu.Unlock()
}

// feed wakes the feeder, or starts it. The caller holds in.mu.
func (in *input) feed() {
	in.changed.Broadcast()
	if in.feeding {
		return
	}
	in.feeding = true
	in.wg.Go(in.run)
}

// run delivers queued data until the input is closed or the command has ended.
func (in *input) run() {
	for {
		in.mu.Lock()
		for len(in.data) == 0 && !in.closed && !in.stopped {
			in.changed.Wait()
		}
		data, stopped := in.data, in.stopped
		in.data = nil
		in.changed.Broadcast()
		in.mu.Unlock()
		if stopped {
			return
		}
		if len(data) == 0 {
			in.process.CloseInput()
			return
		}
		if in.process.Write(data) != nil {
			in.stop() // the command can no longer read it
			return
		}
	}
}
