package box

import (
	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/core"
)

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
func InitOf(b core.Box) int { return b.(*Box).process.pid }

// SpareOf returns the process id of the init that waits for the next box, 0 for none.
func SpareOf(b *Boxes) int {
	b.spares.mu.Lock()
	defer b.spares.mu.Unlock()
	if b.spares.have == nil {
		return 0
	}
	return b.spares.have.init.process.pid
}

// LauncherOf returns the process id of what starts the inits.
func LauncherOf(b *Boxes) int {
	b.launcher.mu.Lock()
	defer b.launcher.mu.Unlock()
	return b.launcher.cmd.Process.Pid
}

// LayerOfLost returns the layer that is named where a launcher is lost.
func LayerOfLost() string {
	return layerOf((&Boxes{}).refusedStart(kind{tier: tier{userns: true}}, &lostError{unix.EPIPE}))
}

// LayerOf returns the layer that a refusal names.
func LayerOf(err error) string { return layerOf(err) }

// MayBeOtherwise returns whether another tier is tried where a layer cannot be had.
func MayBeOtherwise(layer string) bool { return otherwise[layer] }

// ImageFD returns the descriptor of the program of inits.
func ImageFD() (int, error) {
	file, err := image()
	if err != nil {
		return -1, err
	}
	return int(file.Fd()), nil
}

// LimitFix says what helps a kaged without cgroups; see [limitFix].
func LimitFix(booted string) string { return limitFix(booted) }
