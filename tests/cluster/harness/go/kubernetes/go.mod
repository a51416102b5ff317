// Marks the root of the module. The requirements of each release are in its own file: 1.37.mod, 1.34.mod.
// To change one: go mod tidy -modfile=1.37.mod
module claimq.dev/tests/cluster/kubernetes

go 1.26.0
