package box

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tier is how boxes are enforced here.
type tier struct {
	// name is "userns" or "setuid".
	name string
	// uid and gid are the cage's user as the host sees it.
	uid, gid int
	// groups says that this process may take the groups it has from its children.
	groups bool
	// trees says that this process may prepare mounts itself, and map their owners.
	trees bool
}

// findTier says how boxes can be made by this process; cageUID is the host's user for the cages of root.
func findTier(cageUID int) tier {
	t := tier{name: "userns", uid: os.Getuid(), gid: os.Getgid()}
	if os.Geteuid() != 0 {
		return t
	}
	mapped := idsIn("/proc/self/uid_map")
	switch {
	case mapped.has(cageUID) && idsIn("/proc/self/gid_map").has(cageUID):
		t.uid, t.gid = cageUID, cageUID
	case mapped.has(nobody) && idsIn("/proc/self/gid_map").has(nobody):
		t.uid, t.gid = nobody, nobody // in a user namespace of few ids: any that is not root there
	default:
		return t // root of a namespace with one id: on the host it is the user who made that
	}
	t.groups = capable(unix.CAP_SETGID)
	t.trees = capable(unix.CAP_SYS_ADMIN)
	return t
}

// nobody is the user that every system has.
const nobody = 65534

// idRange is a mapping of ids in a user namespace.
type idRange struct{ first, count int }

type idRanges []idRange

// has returns whether an id is mapped.
func (r idRanges) has(id int) bool {
	for _, m := range r {
		if id >= m.first && id-m.first < m.count {
			return true
		}
	}
	return false
}

// idsIn reads a uid_map or gid_map: what this process's namespace knows.
func idsIn(file string) (list idRanges) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, _ := strconv.Atoi(fields[0])
		count, _ := strconv.Atoi(fields[2])
		list = append(list, idRange{first, count})
	}
	return list
}

// capable returns whether this process has a capability.
func capable(c int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}
