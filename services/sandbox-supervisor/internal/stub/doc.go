// Package stub removes stubs: what stands at places that a policy protects and where nothing is, while a cage lives, as a mount needs
// something to cover.
//
// Who makes stubs writes them down first, in a journal that it has locked for as long as it lives; who relies on one has it locked
// too. So what a killed supervisor left can be told from what is in use, by whoever comes: the next supervisor, or the launcher of
// the one that was killed.
package stub
