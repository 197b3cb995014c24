package beneath

// Walk is Open as on a system without openat2.
var Walk = openWalking
