package egress

import (
	"context"
	"time"
)

// perSecond is how often a second a socket is served. Nobody who works needs more, and who does more than that on purpose would
// have this process, which no limit of the cage's binds, work for it.
const perSecond = 2000

// pace keeps a goroutine from working more often than perSecond. The zero value is ready.
type pace struct {
	since time.Time // the beginning of the second that is counted
	done  int
}

// rest is called before each piece of work, and returns when it may be done or ctx has ended.
func (p *pace) rest(ctx context.Context) {
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.since, p.done = now, 0
	}
	if p.done < perSecond {
		p.done++
		return
	}
	timer := time.NewTimer(time.Until(p.since.Add(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.since, p.done = time.Now(), 1
}
