package box

import "kaged.dev/services/sandbox-supervisor/internal/core"

// WithoutUserns makes boxes be made in the second way, which is else only taken where the first does not work. It reports
// whether this process can try.
func (b *Boxes) WithoutUserns() bool {
	for _, t := range b.tiers {
		if !t.userns {
			b.tiers = []tier{t}
			return true
		}
	}
	return false
}

// InitOf returns the process id of a box's init.
func InitOf(b core.Box) int { return b.(*Box).cmd.Process.Pid }
