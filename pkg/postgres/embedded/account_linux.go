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
	// drop: a root process becomes uid and gid. Its folders come as descriptors.
	drop bool
	// mapped: the process keeps its user and looks like seen in a user namespace, because root and
	// users without an entry in the passwd file are refused.
	mapped   bool
	uid, gid int // of the files
	seen     int
}

const overflowID = 65534 // nobody, where no passwd file says otherwise

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

// start starts cmd, also in a user namespace of its own.
func start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr != nil && cmd.SysProcAttr.UidMappings != nil {
		return seal.Open(cmd.Start)
	}
	return cmd.Start()
}

// own gives a file to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// accountsFor lists the accounts to try, best first. The owner of an existing cluster leaves no choice.
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

// folder returns how the account's process names folders that cmd inherits: descriptors need no way through parents.
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

// bind makes the server end when this thread does, and leaves it out of a terminal's Ctrl-C, which is for its parent.
func bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	cmd.SysProcAttr.Setsid = true
}

// serves reports whether a process is the server of a cluster: a server works in its cluster's folder.
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
