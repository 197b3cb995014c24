// Package stub removes stubs: empty files and folders at protected paths without a file, which a living cage needs
// because a mount must cover a file.
//
// The maker of stubs first writes them into a journal, which it has locked for as long as it lives; a user of a stub
// has the stub locked. So the next supervisor, or the launcher of a killed one, can tell leftovers from stubs in use.
package stub
