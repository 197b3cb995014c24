package testkit

import (
	"fmt"
	"os"
	"sync/atomic"
)

// loopbackHost is the number of addresses that Address has returned.
var loopbackHost atomic.Uint32

// Address returns an address of a loopback host for one listener alone. A port selected by the kernel might not stay
// free: before the listener's start, and while a killed service is not running, any connection may use it.
func Address() string {
	n := loopbackHost.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:7000", 100+os.Getpid()%100, os.Getpid()/100%250, 1+n)
}
