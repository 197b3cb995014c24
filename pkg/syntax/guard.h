#ifndef KAGED_GUARD_H
#define KAGED_GUARD_H

// Return the grammar of a language with guards around its external scanner, which ends the process for some texts.
const void *kaged_guarded_kotlin(const void *grammar);
const void *kaged_guarded_ruby(const void *grammar);

#endif
