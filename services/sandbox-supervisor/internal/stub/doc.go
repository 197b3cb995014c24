// Package stub removes stubs: empty files and folders in the place of missing protected paths, which a living cage
// needs as mount points.
//
// The maker of stubs first writes them into a journal, which stays locked while the maker lives; a user of a stub locks
// the stub. The next supervisor, or the launcher of a killed one, can therefore distinguish leftovers from stubs in
// use.
package stub
