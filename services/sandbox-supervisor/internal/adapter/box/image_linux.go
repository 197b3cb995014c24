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

// layerInit is the layer of a cage that is its init.
const layerInit = "init"

// Program returns the program that is embedded in this one, as a sealed file in memory: the init of cages, their launcher, and
// the shim (command cageinit). The file is made once and stays open. Program fails with cage_unavailable where this kaged was
// built without it or the system lets no file in memory be run.
func Program() (*os.File, error) { return image() }

// leastImage is the least descriptor that the image may have: above those that a process is started with, because a child puts those
// in place before it executes /proc/self/fd/N.
const leastImage = 32

var image = sync.OnceValues(func() (*os.File, error) {
	program, err := programs.ReadFile("init/cage-init-" + runtime.GOARCH)
	if err != nil {
		return nil, fault.Wrap(err, fault.CageUnavailable, "This kaged was built without its cage init; build it with make build.").
			With("layer", layerInit)
	}
	fd, err := unix.MemfdCreate("cage-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel that does not know the last flag
		fd, err = unix.MemfdCreate("cage-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, unavailable(layerInit, "memory for its init: "+err.Error(), "sysctl -w vm.memfd_noexec=1, if that is 2")
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, leastImage)
	unix.Close(fd)
	if err != nil {
		return nil, unavailable(layerInit, "memory for its init: "+reasonOf(err), "")
	}
	file := os.NewFile(uintptr(high), "cage-init")
	if _, err := file.Write(program); err != nil {
		file.Close()
		return nil, unavailable(layerInit, "memory for its init: "+reasonOf(err), "")
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	if err != nil {
		file.Close()
		return nil, unavailable(layerInit, "sealing its init: "+err.Error(), "")
	}
	return file, nil
})
