package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes in one line the machine of the measurement: processor, cores, kernel, load. The load is the average
// number of other runnable processes in the last minute. Figures of a loaded machine can only be compared with each
// other.
func Machine() string {
	kernel := strings.TrimSpace(contentOf("/proc/sys/kernel/osrelease"))
	load, _, _ := strings.Cut(contentOf("/proc/loadavg"), " ")
	return fmt.Sprintf("%s, %d cores, %s %s, load %s", processor(), runtime.NumCPU(), runtime.GOOS, kernel, load)
}

// processor returns the kernel's model name of the processor.
func processor() string {
	for line := range strings.Lines(contentOf("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// contentOf returns a file's text, "" if it cannot be read.
func contentOf(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}
