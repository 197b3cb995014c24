//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"sys-ports": sysPorts,
		"sys-i386":  sysI386,
		"sys-x32":   sysX32,
	})
}

func sysPorts() *report {
	r := attack()
	r.entered("ioperm", unix.Ioperm(0x80, 1, 1))
	r.entered("iopl", unix.Iopl(3))
	return r
}

// runELF runs a program that consists of the given code and exits with 0 if it escaped.
func runELF(name string, code []byte) error {
	const base, head = 0x400000, 64 + 56
	le := func(n uint64, size int) (b []byte) {
		for range size {
			b, n = append(b, byte(n)), n>>8
		}
		return b
	}
	image := bytes.Join([][]byte{
		[]byte(
			"\x7fELF\x02\x01\x01",
		), make([]byte, 9), le(2, 2), le(62, 2), le(1, 4), le(base+head, 8), le(64, 8), le(0, 8), le(0, 4), le(64, 2),
		le(56, 2), le(1, 2), make([]byte, 6),
		le(
			1,
			4,
		), le(5, 4), le(0, 8), le(base, 8), le(base, 8), le(uint64(head+len(code)), 8), le(uint64(head+len(code)), 8),
		le(4096, 8), code,
	}, nil)
	path := filepath.Join("/tmp", fmt.Sprintf("escape-%s-%d", name, os.Getpid()))
	if err := os.WriteFile(path, image, 0o755); err != nil {
		fatal(err)
	}
	defer os.Remove(path)
	return exec.Command(path).Run()
}

// leave are instructions that exit with 0 if eax is positive, and with 1 otherwise.
var leave = []byte{0x85, 0xc0, 0x0f, 0x9e, 0xc0, 0x0f, 0xb6, 0xf8, 0xb8, 60, 0, 0, 0, 0x0f, 0x05}

func sysI386() *report {
	r := attack()
	r.try("getpid by int 0x80", runELF("i386", append([]byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80}, leave...)))
	return r
}

func sysX32() *report {
	r := attack()
	r.try("getpid by the x32 number", runELF("x32", append([]byte{0xb8, 39, 0, 0, 0x40, 0x0f, 0x05}, leave...)))
	return r
}
