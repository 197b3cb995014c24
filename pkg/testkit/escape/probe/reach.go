//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reach prints the access to each path of its arguments: "r" or "-" for reading it, "w" or "-" for writing it or a new
// file in it, then the path. For each name in a readable folder it prints "in", the folder and the name.
func reach() {
	for _, path := range os.Args[2:] {
		says := []byte("--")
		info, err := os.Stat(path)
		folder := err == nil && info.IsDir()
		if folder {
			if names, err := os.ReadDir(path); err == nil {
				says[0] = 'r'
				for _, n := range names {
					fmt.Printf("in %s %s\n", path, n.Name())
				}
			}
			path := filepath.Join(path, ".reach")
			if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600); err == nil {
				unix.Close(fd)
				_ = unix.Unlink(path)
				says[1] = 'w'
			}
		} else {
			if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				unix.Close(fd)
				says[0] = 'r'
			}
			if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				unix.Close(fd)
				says[1] = 'w'
			}
		}
		fmt.Printf("%s %s\n", says, path)
	}
}
