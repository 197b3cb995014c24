package daemon

import (
	"os"
	"runtime/pprof"

	"kaged.dev/pkg/fault"
)

// profile writes a CPU profile of the daemon's whole run to path; an empty path means no profile.
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
