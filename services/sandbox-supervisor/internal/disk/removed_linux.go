package disk

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deleted is the suffix in /proc of the path of a file without a name. A named file may have the same suffix.
const deleted = " (deleted)"

// removed adds the files without a name that processes have open or mapped on watched file systems, and, if a folder
// cannot be read, every file that they have open, because it may be in that folder. dirty holds the bytes once seen
// dirty of mapped files whose blocks cannot be read; removed returns it for those that are still mapped.
//
// A file in transit between two sockets is held by no process and is not found.
func (r *reader) removed(pids []int, systems map[uint64]int64, dirty map[inode]int64) map[inode]int64 {
	still := map[inode]int64{}
	for _, pid := range pids {
		tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/[0-9]*")
		if err != nil {
			continue
		}
		mapped := false
		for _, task := range tasks {
			if !sameFiles(pid, task) {
				r.open(task+"/fd", systems)
			}
			// Threads share their memory; an ended one has no mappings.
			mapped = mapped || r.mapped(task, systems, dirty, still)
		}
	}
	for id, size := range still {
		if !r.seen[id] {
			r.seen[id] = true
			r.all += size
		}
	}
	return still
}

// sameFiles reports whether a thread shares the descriptors of its process's first thread, and is another thread.
func sameFiles(pid int, task string) bool {
	tid, err := strconv.Atoi(filepath.Base(task))
	if err != nil || tid == pid {
		return false
	}
	const files = 2 // the value of KCMP_FILES
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(tid), files, 0, 0, 0)
	return errno == 0 && differ == 0
}

// open adds the files in a folder of descriptors.
func (r *reader) open(folder string, systems map[uint64]int64) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := folder + "/" + e.Name()
		if target, err := os.Readlink(path); err == nil && (r.blind || strings.HasSuffix(target, deleted)) {
			_ = r.held(path, r.blind, systems) // a descriptor closed in the meantime holds no file
		}
	}
}

// held adds the file behind a link of /proc if it has no name, or if named is set and it has one. It fails if the link
// cannot be followed.
func (r *reader) held(path string, named bool, systems map[uint64]int64) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Nlink > 0 && !named || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	id := inode{uint64(st.Dev), st.Ino}
	if _, watched := systems[uint64(st.Dev)]; watched && !r.seen[id] {
		r.seen[id] = true
		r.all += max(st.Blocks*512, PerFile)
	}
	return nil
}

// mapped adds the files without a name that a thread has mapped, and reports whether the thread has any memory. Only
// root can follow a mapping to its file. For other users the dirty bytes of the mapping count, because at least that
// part of the file has blocks.
func (r *reader) mapped(task string, systems map[uint64]int64, dirty, still map[inode]int64) bool {
	maps, err := os.Open(task + "/maps")
	if err != nil {
		return false
	}
	defer maps.Close()
	some, unknown := false, false
	for lines := bufio.NewReader(maps); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		some = true
		if m, ok := parseMapping(line); ok {
			unknown = r.held(filepath.Dir(filepath.Dir(task))+"/map_files/"+m.span, false, systems) != nil || unknown
		}
	}
	if unknown {
		for id, size := range written(task) {
			if _, watched := systems[id.dev]; watched {
				still[id] = max(still[id], dirty[id], size)
			}
		}
	}
	return some
}

// mapping is a line of /proc/PID/maps about a shared mapping of a file without a name.
type mapping struct {
	span string // the name in map_files
	id   inode
}

// parseMapping parses "7f00-7f01 rw-s 00000000 fd:01 1234   /path (deleted)".
func parseMapping(line string) (mapping, bool) {
	line = strings.TrimSuffix(line, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || len(fields[1]) != 4 || !strings.HasSuffix(line, deleted) {
		return mapping{}, false
	}
	major, minor, ok := strings.Cut(fields[3], ":")
	high, err1 := strconv.ParseUint(major, 16, 32)
	low, err2 := strconv.ParseUint(minor, 16, 32)
	ino, err3 := strconv.ParseUint(fields[4], 10, 64)
	if !ok || err1 != nil || err2 != nil || err3 != nil {
		return mapping{}, false
	}
	return mapping{fields[0], inode{unix.Mkdev(uint32(high), uint32(low)), ino}}, true
}

// written returns the number of dirty bytes of the files without a name that a thread has mapped.
func written(task string) map[inode]int64 {
	smaps, err := os.Open(task + "/smaps")
	if err != nil {
		return nil
	}
	defer smaps.Close()
	return dirtyOf(smaps)
}

// dirtyOf adds up the dirty parts of shared mappings of files without a name, from a text in the format of
// /proc/PID/smaps.
func dirtyOf(smaps io.Reader) map[inode]int64 {
	sizes := map[inode]int64{}
	var current mapping
	counts := false
	for lines := bufio.NewReader(smaps); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return sizes
		}
		name, rest, _ := strings.Cut(line, ":")
		if strings.Contains(name, " ") { // the first line of a mapping: the colon belongs to its device
			current, counts = parseMapping(line)
			counts = counts && strings.Fields(line)[1][3] == 's'
			continue
		}
		if !counts || name != "Shared_Dirty" && name != "Private_Dirty" {
			continue
		}
		if kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 53); err == nil && kB > 0 {
			sizes[current.id] += min(kB, 1<<40) << 10
		}
	}
}
