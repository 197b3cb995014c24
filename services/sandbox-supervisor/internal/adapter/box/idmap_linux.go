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

// ids is a user id and a group id.
type ids struct{ uid, gid int }

// usernses caches user namespaces that map a file owner to a cage's user. There is one per distinct owner.
type usernses struct {
	mu   sync.Mutex // guards made
	made map[[2]ids]*os.File
}

// get returns a descriptor of the namespace that maps owner to the cage's user, -1 if both are the same.
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

// close closes the namespaces.
func (u *usernses) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.made {
		f.Close()
	}
	u.made = nil
}

// makeUserns makes a user namespace that maps owner (on disk) to the user to (on the host). A short-lived process
// carries the namespace until it has a descriptor; the process is reaped before the return.
func makeUserns(owner, to ids) (*os.File, error) {
	program, err := image()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // the process would block on reading this
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	argv := []string{"kaged-idmap", blueprint.ArgHold}
	p, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(program.Fd())), argv, &os.ProcAttr{
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
