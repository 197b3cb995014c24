package egress

import (
	"context"
	"time"

	"kaged.dev/pkg/retry"
)

// perSecond limits the work per socket. Cage limits do not cover this process, so an unlimited rate would let a cage
// use its CPU.
const perSecond = 2000

// pace limits a goroutine to perSecond pieces of work. The zero value is ready.
type pace struct {
	since time.Time // the start of the current second
	done  int
}

// rest is called before each piece of work. It waits until the rate allows that work, or ctx ends.
func (p *pace) rest(ctx context.Context) {
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.since, p.done = now, 0
	}
	if p.done < perSecond {
		p.done++
		return
	}
	retry.Wait(ctx, time.Until(p.since.Add(time.Second)))
	p.since, p.done = time.Now(), 1
}
