package app

// Version is the version of this program, without a leading v. A release is made
// by changing it.
const Version = "0.1.0"
