// Package seal protects this process from other processes of the same user: its environment, memory and open files,
// which hold keys of providers. An uncaged command runs as the same user. Root has access, and programs started by this
// process are not sealed.
package seal
