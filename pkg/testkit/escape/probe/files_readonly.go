//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func fsReadOnlyGrant() *report {
	r := attack()
	page := filepath.Join(params.Docs, "page")
	r.created(filepath.Join(params.Docs, "new"))
	r.written(page)
	r.try("the right to write", unix.Access(params.Docs, unix.W_OK))
	err := os.Rename(page, page+"2")
	r.try("renaming", err)
	if err == nil {
		_ = os.Rename(page+"2", page)
	}
	r.try("chmod", os.Chmod(page, 0o777))
	r.try("utimes", unix.Utimes(page, []unix.Timeval{{}, {}}))
	r.try("an attribute", unix.Setxattr(page, "user.probe", []byte("x"), 0))
	r.try("a folder", os.Mkdir(filepath.Join(params.Docs, "folder"), 0o755))
	return r
}

func fsReadOnlyNested() *report {
	r := attack()
	r.created(filepath.Join(params.Sealed, "new"))
	r.written(filepath.Join(params.Sealed, "page"))
	r.try("removing", os.Remove(filepath.Join(params.Sealed, "victim")))
	// Folders between a grant and a nested grant have the rights of the outer grant.
	r.created(filepath.Join(filepath.Dir(params.Open), "new"))
	return r
}

func fsReadOnlyReplace() *report {
	r := attack()
	away := link("sealed")
	err := os.Rename(params.Sealed, away)
	r.try("moving the read-only folder away", err)
	if err == nil {
		_ = os.Rename(away, params.Sealed)
	}
	r.try("removing it", unix.Rmdir(params.Sealed))
	r.try("a link in its place", os.Symlink("/tmp", params.Sealed))
	// Tools that trust the sealed file would read another file instead.
	r.try("exchanging it", unix.Renameat2(unix.AT_FDCWD, params.Sealed, unix.AT_FDCWD, params.Open, unix.RENAME_EXCHANGE))
	return r
}

func fsReadOnlyDescriptor() *report {
	r := attack()
	page := filepath.Join(params.Docs, "page")
	for name, flags := range map[string]int{"O_PATH": unix.O_PATH, "O_RDONLY": unix.O_RDONLY} {
		fd, err := unix.Open(page, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			fatal(err)
		}
		again := fmt.Sprintf("/proc/self/fd/%d", fd)
		_, err = unix.Open(again, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		r.try("opening an "+name+" descriptor for writing", err)
		r.try("truncating by it", unix.Truncate(again, 1<<10))
		r.try("linking it where one may write", unix.Linkat(fd, "", unix.AT_FDCWD, link("descriptor"), unix.AT_EMPTY_PATH))
		r.try(
			"linking it by its name",
			unix.Linkat(unix.AT_FDCWD, again, unix.AT_FDCWD, link("descriptor"), unix.AT_SYMLINK_FOLLOW),
		)
		_ = os.Remove(link("descriptor"))
		unix.Close(fd)
	}
	fd, err := unix.Open(page, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	defer unix.Close(fd)
	_, err = unix.Mmap(fd, 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	r.try("mapping it for writing", err)
	r.try("fchmod", unix.Fchmod(fd, 0o777))
	return r
}

func fsReadOnlySystem() *report {
	r := attack()
	for _, dir := range []string{
		"/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/bin", "/sbin", "/lib", "/etc", "/etc/ssl", "/opt",
		"/var", "/dev", "/proc", "/run/..", "/home",
	} {
		r.created(filepath.Join(dir, "escape-probe"))
	}
	for _, file := range []string{"/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/ld.so.cache", "/bin/sh"} {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		r.try("opening "+file+" for writing", err)
	}
	return r
}

func fsReadOnlyRoot() *report {
	r := attack()
	r.created("/escape-probe")
	r.try("a folder", os.Mkdir("/escape-probe", 0o755))
	// The folders above the grants are read-only.
	for dir := filepath.Dir(params.Project); dir != "/" && dir != "/tmp"; dir = filepath.Dir(dir) {
		r.created(filepath.Join(dir, "escape-probe"))
	}
	r.created(filepath.Join(params.Project, "escape-probe"))
	return r
}

func fsFileNeighbours() *report {
	r := attack()
	dir := filepath.Dir(params.File)
	r.created(filepath.Join(dir, "escape-probe"))
	r.hidden(filepath.Join(dir, "neighbour"))
	err := os.Rename(params.File, params.File+"2")
	r.try("moving the granted file", err)
	if err == nil {
		_ = os.Rename(params.File+"2", params.File)
	}
	return r
}

// planted tries to create a file that tools outside the cage would run, and removes it.
func (r *report) planted(path string) {
	_, before := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o755)
	if err == nil {
		_, err = f.WriteString("\n# planted\n")
		f.Close()
	}
	r.try("writing "+path, err)
	if err == nil && before != nil {
		_ = os.Remove(path)
	}
}

func fsProtected() *report {
	r := attack()
	git := filepath.Join(params.Repository, ".git")
	r.planted(filepath.Join(git, "hooks", "pre-commit"))
	r.planted(filepath.Join(git, "hooks", "post-checkout"))
	r.planted(filepath.Join(git, "config"))
	r.planted(filepath.Join(params.Work, ".kaged", "project.yaml"))
	return r
}

func fsProtectedFresh() *report {
	r := attack()
	// The cage must not create missing protected files (CVE-2026-25725).
	r.try("a repository", os.MkdirAll(filepath.Join(params.Work, ".git", "hooks"), 0o755))
	r.planted(filepath.Join(params.Work, ".git", "hooks", "pre-commit"))
	r.planted(filepath.Join(params.Work, ".git", "config"))
	_, before := os.Lstat(filepath.Join(params.Work, ".kaged", "prompts"))
	r.try("a folder in .kaged", os.MkdirAll(filepath.Join(params.Work, ".kaged", "prompts"), 0o755))
	if before != nil {
		_ = os.Remove(filepath.Join(params.Work, ".kaged", "prompts"))
	}
	return r
}

func fsProtectedGitlink() *report {
	r := attack()
	sub := filepath.Join(params.Linked, "sub")
	r.planted(filepath.Join(sub, ".git"))
	err := os.MkdirAll(filepath.Join(sub, ".git", "objects"), 0o755)
	r.try("a repository in its place", err)
	if err == nil {
		_ = os.RemoveAll(filepath.Join(sub, ".git"))
	}
	err = os.Rename(sub, link("sub"))
	r.try("moving its folder away", err)
	if err == nil {
		_ = os.Rename(link("sub"), sub)
	}
	return r
}

func fsProtectedModules() *report {
	r := attack()
	for _, repository := range []string{params.Linked, params.Repository} {
		modules := filepath.Join(repository, ".git", "modules")
		_, before := os.Lstat(modules)
		r.try("a repository in "+modules, os.MkdirAll(filepath.Join(modules, "sub"), 0o755))
		r.planted(filepath.Join(modules, "sub", "config"))
		if before != nil {
			_ = os.RemoveAll(modules)
		}
	}
	return r
}

func fsProtectedNamed() *report {
	r := attack()
	hooks := filepath.Join(params.Linked, "tools", "hooks")
	r.planted(filepath.Join(hooks, "pre-commit"))
	r.planted(filepath.Join(params.Linked, "shared.inc"))
	r.planted(filepath.Join(params.Linked, "tools", "watch"))
	err := os.Rename(hooks, link("named-hooks"))
	r.try("moving the hooks away", err)
	if err == nil {
		_ = os.Rename(link("named-hooks"), hooks)
	}
	return r
}

func fsProtectedSkills() *report {
	r := attack()
	agents := filepath.Join(params.Work, ".agents")
	r.planted(filepath.Join(agents, "skills", "deploy", "SKILL.md"))
	r.planted(filepath.Join(agents, "skills", "deploy", "script"))
	err := os.Mkdir(filepath.Join(agents, "skills", "other"), 0o755)
	r.try("another skill", err)
	if err == nil {
		_ = os.Remove(filepath.Join(agents, "skills", "other"))
	}
	err = os.Rename(agents, link("skills"))
	r.try("moving the skills away", err)
	if err == nil {
		_ = os.Rename(link("skills"), agents)
	}
	return r
}

func fsProtectedRename() *report {
	r := attack()
	git := filepath.Join(params.Repository, ".git")
	evil := link("evil")
	if err := os.MkdirAll(filepath.Join(evil, "hooks"), 0o755); err != nil {
		fatal(err)
	}
	for _, path := range []string{
		filepath.Join(git, "hooks"), filepath.Join(git, "config"), filepath.Join(params.Work, ".kaged"),
	} {
		r.try("moving "+path, os.Rename(path, link("moved")))
		r.try("exchanging "+path, unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE))
		r.try("replacing "+path, os.Rename(evil, path))
	}
	// Moving the parent folder would move the protected path along, and a new one could be created in its place.
	err := os.Rename(git, link("moved-git"))
	if err == nil {
		_ = os.Rename(link("moved-git"), git)
	}
	r.try("moving "+git, err)
	_ = os.RemoveAll(evil)
	return r
}

func fsProtectedLink() *report {
	r := attack()
	git := filepath.Join(params.Repository, ".git")
	for _, path := range []string{
		filepath.Join(git, "hooks"), filepath.Join(git, "config"), filepath.Join(params.Work, ".kaged"),
		filepath.Join(params.Work, ".git"),
	} {
		r.try("removing "+path, os.Remove(path))
		r.try("a link at "+path, os.Symlink("/tmp", path))
	}
	r.try("a hard link to the hooks", os.Link(filepath.Join(git, "config"), link("config")))
	_ = os.Remove(link("config"))
	return r
}
