package box

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// tier is how boxes are enforced.
type tier struct {
	// userns says that a box has a user namespace of its own; else its init has the rights to build it from root, and gives
	// them up.
	userns bool
	// user is the cage's user as the host sees it.
	user ids
	// groups says that this process may take the groups it has from its children.
	groups bool
	// trees says that this process may prepare mounts itself, and map their owners.
	trees bool
}

// name is what the tier is called outside.
func (t tier) name() string {
	if t.userns {
		return "userns"
	}
	return "setuid"
}

// tiers returns the ways in which boxes may be possible for this process, the best first; only trying tells. cageUID is the
// host's user for the cages of root.
func tiers(cageUID int) []tier {
	own := tier{userns: true, user: ids{os.Getuid(), os.Getgid()}}
	if os.Geteuid() != 0 {
		return []tier{own}
	}
	t := tier{userns: true, groups: capable(unix.CAP_SETGID), trees: capable(unix.CAP_SYS_ADMIN)}
	uids, gids := idsIn("/proc/self/uid_map"), idsIn("/proc/self/gid_map")
	switch {
	case uids.has(cageUID) && gids.has(cageUID):
		t.user = ids{cageUID, cageUID}
	case uids.has(nobody) && gids.has(nobody):
		t.user = ids{nobody, nobody} // in a user namespace of few ids: any that is not root there
	default:
		return []tier{own} // root of a namespace with one id: on the host it is the user who made that
	}
	without := t
	without.userns = false
	for _, c := range append(blueprint.Rights(false), unix.CAP_SETUID, unix.CAP_SETGID) {
		if !capable(int(c)) {
			return []tier{t}
		}
	}
	return []tier{t, without}
}

// userOf returns the cage's user for a view, as the host sees it. Where owners cannot be mapped it is the owner of the project,
// who can write there as it is, but never root.
func (t tier) userOf(root string) ids {
	if t.userns {
		return t.user
	}
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil || st.Uid == 0 || st.Gid == 0 {
		return t.user
	}
	return ids{int(st.Uid), int(st.Gid)}
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
