package embedded

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"kaged.dev/pkg/seal"
)

// account is the user of the server process.
type account struct {
	// drop: a root process changes to uid and gid. Its folders are inherited as descriptors.
	drop bool
	// mapped: the process keeps its user and appears as seen in a user namespace, because PostgreSQL refuses root and
	// users without an entry in the passwd file.
	mapped   bool
	uid, gid int // owner of the files
	seen     int
}

const overflowID = 65534 // user and group "nobody", unless a passwd file defines another

func (a account) String() string {
	switch {
	case a.drop:
		return "as uid " + strconv.Itoa(a.uid)
	case a.mapped:
		return "in a user namespace"
	}
	return "as this user"
}

// apply makes cmd run as the account.
func (a account) apply(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	switch {
	case a.drop:
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	case a.mapped:
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: a.seen, HostID: a.uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: a.seen, HostID: a.gid, Size: 1}}
	}
}

// start starts cmd, if needed in its own user namespace.
func start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr != nil && cmd.SysProcAttr.UidMappings != nil {
		return seal.Open(cmd.Start)
	}
	return cmd.Start()
}

// own changes a file's owner to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// accountsFor lists the accounts to try, best first. For an existing cluster it is the owner's only.
func accountsFor(p paths) ([]account, error) {
	self := account{uid: os.Geteuid(), gid: os.Getegid()}
	namespace := account{mapped: true, uid: self.uid, gid: self.gid, seen: overflowID}
	if nobody, ok := lookup("nobody"); ok {
		namespace.seen = nobody.uid
	}
	info, err := os.Lstat(p.data)
	if err == nil {
		stat := info.Sys().(*syscall.Stat_t)
		owner := account{drop: true, uid: int(stat.Uid), gid: int(stat.Gid)}
		switch {
		case self.uid != 0 && owner.uid != self.uid:
			return nil, conflict(
				nil,
				"The database in %s belongs to another user; start kaged as the user that made it.",
				p.data,
			)
		case self.uid != 0:
			return []account{self}, nil
		case owner.uid == 0:
			return []account{namespace}, nil
		}
		return []account{owner}, nil
	}
	if self.uid != 0 {
		if _, err := user.LookupId(strconv.Itoa(self.uid)); err != nil {
			return []account{namespace}, nil
		}
		return []account{self}, nil
	}
	var accounts []account
	for _, name := range []string{"postgres", "nobody"} {
		if a, ok := lookup(name); ok {
			accounts = append(accounts, a)
		}
	}
	return append(accounts, namespace), nil
}

func lookup(name string) (account, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return account{drop: true, uid: uid, gid: gid}, err1 == nil && err2 == nil && uid != 0
}

// folder returns the name under which the account's process can open a folder: an inherited descriptor, which needs no
// access to the parent folders.
func (a account) folder(cmd *exec.Cmd, path string) (name string, closeAfterStart func(), err error) {
	if !a.drop {
		return path, func() {}, nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return "", nil, failed(err, "The folder %s cannot be opened.", path)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, dir)
	return "/proc/self/fd/" + strconv.Itoa(2+len(cmd.ExtraFiles)), func() { _ = dir.Close() }, nil
}

// bind makes the server end with this thread, and detaches it from a terminal's Ctrl-C, which its parent handles.
func bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	cmd.SysProcAttr.Setsid = true
}

// serves reports whether a process is the server of a cluster: a server's working folder is the cluster's.
func serves(pid int, data string) bool {
	if !alive(pid) {
		return false
	}
	proc, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	own, err := os.Stat(data)
	return err == nil && os.SameFile(proc, own)
}
