"""claimq's scaling rule judged in simulation: scenarios, stored baselines, the comparison and its report."""
