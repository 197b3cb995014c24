// Package seal keeps other processes of the same user out of this one: its environment, memory and open files,
// where keys of providers are. A command that works without a cage has the same user. Root is not kept out, and
// programs that this process starts are not sealed.
package seal
