package daemon

import (
	"os"
	"runtime/pprof"

	"kaged.dev/pkg/fault"
)

// profile writes a CPU profile of the daemon's whole life to path, for whoever wants to know what a figure is made of; an
// empty path means none.
func profile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The CPU profile %s cannot be written.", path)
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}
