package box

import (
	"embed"
	"errors"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
)

//go:embed init
var programs embed.FS

// layerInit names the init in errors about a cage's layers.
const layerInit = "init"

// Program returns the embedded program as a sealed file in memory: the cage init, the launcher and the shim (command
// cageinit). The file is made once and stays open. Program fails with cage_unavailable if the build lacks the program
// or the system forbids executable memory files.
func Program() (*os.File, error) { return image() }

// leastImage is the lowest descriptor number of the image. A child moves its inherited descriptors to the low numbers
// before it executes /proc/self/fd/N, so N must be above them.
//
// gap is the number of descriptors right below the image that stay in use. Before it moves its descriptors, a child
// copies some of them, and its end of a pipe, to the numbers that follow the highest one. If that were just below N, a
// copy would take the image's place, and its execution would fail with "permission denied". A child inherits fewer than
// gap-1 descriptors.
const (
	leastImage = 32
	gap        = 16
)

var image = sync.OnceValues(func() (*os.File, error) {
	program, err := programs.ReadFile("init/cage-init-" + runtime.GOARCH)
	if err != nil {
		return nil, fault.Wrap(err, fault.CageUnavailable,
			"This kaged was built without its cage init; build it with make build.").
			With("layer", layerInit)
	}
	fd, err := unix.MemfdCreate("cage-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel without MFD_EXEC
		fd, err = unix.MemfdCreate("cage-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, unavailable(layerInit, "memory for its init: "+err.Error(), "sysctl -w vm.memfd_noexec=1, if that is 2")
	}
	high, err := placed(fd)
	unix.Close(fd)
	if err != nil {
		return nil, unavailable(layerInit, "memory for its init: "+reasonOf(err), "")
	}
	file := os.NewFile(uintptr(high), "cage-init")
	if _, err := file.Write(program); err != nil {
		file.Close()
		return nil, unavailable(layerInit, "memory for its init: "+reasonOf(err), "")
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	if err != nil {
		file.Close()
		return nil, unavailable(layerInit, "sealing its init: "+err.Error(), "")
	}
	return file, nil
})

// placed returns a duplicate of fd at or above leastImage, with duplicates at the gap numbers below it.
func placed(fd int) (high int, err error) {
	var run, rest []int // run is consecutive
	defer func() {
		for _, fd := range rest {
			unix.Close(fd)
		}
	}()
	for len(run) <= gap {
		next, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, leastImage)
		if err != nil {
			rest = append(rest, run...)
			return -1, err
		}
		if n := len(run); n > 0 && next != run[n-1]+1 {
			rest, run = append(rest, run...), nil
		}
		run = append(run, next)
	}
	return run[gap], nil
}
