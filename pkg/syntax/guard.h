#ifndef KAGED_GUARD_H
#define KAGED_GUARD_H

// Return the grammar of a language with guards around its external scanner, which for some texts ends the process or
// writes past its buffer.
const void *kaged_guarded_bash(const void *grammar);
const void *kaged_guarded_kotlin(const void *grammar);
const void *kaged_guarded_ruby(const void *grammar);
const void *kaged_guarded_yaml(const void *grammar);

#endif
