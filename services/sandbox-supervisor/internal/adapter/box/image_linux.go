package box

import (
	"embed"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
)

//go:embed init
var programs embed.FS

// image returns the init as a file in memory that nobody can change any more, made once for all boxes.
var image = sync.OnceValues(func() (*os.File, error) {
	program, err := programs.ReadFile("init/cage-init-" + runtime.GOARCH)
	if err != nil {
		return nil, fault.Wrap(err, fault.CageUnavailable, "This kaged was built without its cage init; build it with make build.").
			With("layer", "init")
	}
	fd, err := unix.MemfdCreate("cage-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // a kernel that does not know the last flag
		fd, err = unix.MemfdCreate("cage-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "cage-init")
	if _, err := file.Write(program); err != nil {
		file.Close()
		return nil, fmt.Errorf("memory for the cage init: %w", err)
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("sealing the cage init: %w", err)
	}
	return file, nil
})
