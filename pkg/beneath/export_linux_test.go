package beneath

// Walk is Open for a system without openat2.
var Walk = openWalking
