package box

import (
	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// WithoutUserns selects the tier without user namespaces, which is otherwise a fallback. It reports whether this
// process can try that tier.
func (b *Boxes) WithoutUserns() bool {
	for _, t := range b.tiers {
		if !t.userns {
			b.tiers = []tier{t}
			return true
		}
	}
	return false
}

// InitOf returns the process id of a cage's init.
func InitOf(b core.Box) int { return b.(*Box).process.pid }

// SpareOf returns the process id of the spare, 0 if there is no spare.
func SpareOf(b *Boxes) int {
	b.spares.mu.Lock()
	defer b.spares.mu.Unlock()
	if b.spares.have == nil {
		return 0
	}
	return b.spares.have.init.process.pid
}

// LauncherOf returns the process id of the launcher.
func LauncherOf(b *Boxes) int {
	b.launcher.mu.Lock()
	defer b.launcher.mu.Unlock()
	return b.launcher.cmd.Process.Pid
}

// LayerOfLost returns the layer named in the error of a lost launcher.
func LayerOfLost() string {
	return layerOf((&Boxes{}).refusedStart(kind{tier: tier{userns: true}}, &lostError{unix.EPIPE}))
}

// LayerOf returns the layer named in an error.
func LayerOf(err error) string { return layerOf(err) }

// MayBeOtherwise reports whether the failure of a layer makes another tier worth trying.
func MayBeOtherwise(layer string) bool { return otherwise[layer] }

// ImageFD returns the descriptor of the init program.
func ImageFD() (int, error) {
	file, err := image()
	if err != nil {
		return -1, err
	}
	return int(file.Fd()), nil
}

// LimitFix returns the fix for a kaged without cgroups; see [limitFix].
func LimitFix(booted string) string { return limitFix(booted) }
