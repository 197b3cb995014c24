package box

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// tier is a kind of enforcement.
type tier struct {
	// userns gives a cage its own user namespace. Without it the init starts with root's capabilities and drops them.
	userns bool
	// user is the cage's user on the host.
	user ids
	// groups allows clearing the supplementary groups of children.
	groups bool
	// trees allows preparing mounts and mapping their owners in this process.
	trees bool
}

// name returns the tier's name in reports.
func (t tier) name() string {
	if t.userns {
		return "userns"
	}
	return "setuid"
}

// tiers returns the candidate tiers of this process, the best first; a trial decides between them. cageUID is the
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
	case uids.has(nobodyID) && gids.has(nobodyID):
		t.user = ids{nobodyID, nobodyID} // in a container's user namespace, which may lack cageUID
	default:
		return []tier{own} // root of a namespace with one id, mapped to an ordinary user
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

// userOf returns the cage's user on the host. Without a user namespace that is the owner of the project folder, who can
// write there without a mapping; for folders of root it is the tier's user.
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

// nobodyID is the id of the user nobody.
const nobodyID = 65534

// idRange is one mapping of ids in a user namespace.
type idRange struct{ first, count int }

type idRanges []idRange

// has reports whether an id is mapped.
func (r idRanges) has(id int) bool {
	for _, m := range r {
		if id >= m.first && id-m.first < m.count {
			return true
		}
	}
	return false
}

// idsIn reads a uid_map or gid_map: the ids of this process's user namespace.
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

// capable reports whether this process has a capability in its effective set.
func capable(c int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}
