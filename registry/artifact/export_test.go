package artifact

// CheckAddress is for addresses that a test cannot connect to.
var CheckAddress = checkAddress
