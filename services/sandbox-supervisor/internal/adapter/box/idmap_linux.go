package box

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// ids are a user and a group.
type ids struct{ uid, gid int }

// usernses are user namespaces that map an owner to a cage's user, kept by this process: they are few, as owners are.
type usernses struct {
	mu   sync.Mutex // guards what follows
	made map[[2]ids]*os.File
}

// get returns the namespace that maps an owner to a cage's user, -1 if that is the owner.
func (u *usernses) get(owner, to ids) (int, error) {
	if owner == to {
		return -1, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := [2]ids{owner, to}
	if f := u.made[key]; f != nil {
		return int(f.Fd()), nil
	}
	f, err := makeUserns(owner, to)
	if err != nil {
		return -1, fmt.Errorf("mapping owners: %w", err)
	}
	if u.made == nil {
		u.made = map[[2]ids]*os.File{}
	}
	u.made[key] = f
	return int(f.Fd()), nil
}

// close lets go of the namespaces.
func (u *usernses) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.made {
		f.Close()
	}
	u.made = nil
}

// makeUserns makes a user namespace in which the owner on disk is to on the host. A process is needed for that; it does
// nothing, and is gone when this returns.
func makeUserns(owner, to ids) (*os.File, error) {
	program, err := image()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // what the process would read, if it were let
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	p, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(program.Fd())), []string{"kaged-idmap", blueprint.ArgHold}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{r},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: owner.uid, HostID: to.uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: owner.gid, HostID: to.gid, Size: 1}},
		},
	})
	if err != nil {
		return nil, err
	}
	ns, err := os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user")
	_ = p.Kill()
	_, _ = p.Wait()
	return ns, err
}
